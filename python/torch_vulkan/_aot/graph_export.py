"""tv.export_graph: a model as a graph file, which holds data alone.

A graph file is what a compile service takes from strangers beside ONNX files: the compiler's graph
and its weights (csrc/frontends/graph_file/graph_file.h).
"""

import os
import warnings

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from .._base import whole_files
from .._base.errors import UnsupportedError
from .._base.inputs import Arguments
from .._base.raw_bytes import raw_bytes
from .._base.settings import Settings
from .._fx.fx_nodes import attribute
from .._fx.importer import Imported, Importer, name_of
from .._fx.prepare import prepare
from .._fx.report import reasons
from .._fx.splitting import record_of
from .._fx.symbols import Inexpressible
from .._native import C
from .._torch.ranges import compiled_for
from . import exporting

aten = torch.ops.aten
_LONGEST_PIECE = 1 << 26


def export_graph(model: nn.Module | ExportedProgram, path: str | os.PathLike, inputs=None, *,
                 kwarg_inputs=None) -> None:
    """Writes a model as a graph file (.vkg), which `vkexec --graph`, the compile service and
    `tv.AutoModel` build engines of: the same as tv.compile makes. It is a .safetensors file of the
    model's weights with the graph in its header; there is no code in it.

    Args:
        model: a module in the mode in which it is to run (`.eval()`), or an ExportedProgram.
        path: of the file.
        inputs, kwarg_inputs: as for tv.compile; may be None for an ExportedProgram.

    Raises:
        UnsupportedError: torch.export cannot capture the module, or no engine can be all of it; the
            message names the nodes and says why, as tv.dry_run does.
        ValueError: an invalid input, or scale of a quantised tensor.
        OSError: the file cannot be written.
    """
    arguments = Arguments.of(inputs, kwarg_inputs) if inputs is not None or kwarg_inputs else None
    source = exporting.captured(model, arguments, "tv.export_graph")
    exporting.check_scales(source)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = exporting.decompose(source)
        signature = exporting.signature_of(program, arguments.leaves() if arguments else None)
    module, weights = exporting.module_of(program, signature)
    _refuse_changes(program)
    with compiled_for(signature.sizes):
        imported, tensors = _imported(module, weights, _tensors(program))
    _refuse_native(imported)
    graph = imported.graph
    head, order = C.graph_file_head(graph)
    names = [name for name, _, _ in graph.weights]
    with whole_files.written(path, "tv.export_graph") as file:
        file.write(head)
        for place in order:
            _write(file, tensors[names[place]])


def _refuse_changes(program: ExportedProgram) -> None:
    changed = [spec.target for spec in program.graph_signature.output_specs
               if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.TOKEN)]
    if changed:
        raise UnsupportedError(
            f"tv.export_graph: the model changes {', '.join(map(str, changed))}, and a graph file "
            "is a function of its inputs: give such tensors as inputs, and return what they become")


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """By the names of placeholders."""
    held = {**program.constants, **program.state_dict}
    return {spec.arg.name: held[spec.target] for spec in program.graph_signature.input_specs
            if spec.kind != InputKind.USER_INPUT and spec.target in held}


def _imported(module: fx.GraphModule, weights: set[str], held: dict[str, torch.Tensor]):
    """What was imported, and the tensors of its weights by name."""
    results = [*module.graph.output_node().args[0]]
    for i, node in enumerate(results):
        if node is not None and not (isinstance(node, fx.Node) and isinstance(
                node.meta.get("val"), torch.Tensor)):
            raise UnsupportedError(f"tv.export_graph: result {i} is no tensor: {node}")
    module.graph.output_node().args = (tuple(_of_their_own(module.graph, results)),)
    prepare(module, None)
    for node in module.graph.find_nodes(op="placeholder"):
        if node.name in weights and not node.users:
            module.graph.erase_node(node)
    inputs = [name_of(node) for node in module.graph.find_nodes(op="placeholder")
              if node.name not in weights and isinstance(node.meta.get("val"), torch.Tensor)]
    try:
        imported = Importer(module, weights).run()
    except Inexpressible as error:
        raise UnsupportedError(f"tv.export_graph: {error}") from None
    if more := [name for name in imported.graph.inputs if name not in inputs]:
        raise UnsupportedError("tv.export_graph: the model reads numbers that PyTorch would "
                               f"compute: {', '.join(more)}")
    tensors = {name_of(node): held[node.name] for node in module.graph.find_nodes(op="placeholder")
               if node.name in held}
    tensors |= {name_of(node): attribute(module, node.target)
                for node in module.graph.find_nodes(op="get_attr")}
    return imported, tensors


def _of_their_own(graph: fx.Graph, results: list) -> list[fx.Node]:
    """The results, each once, and none of them an input or a weight: what would be is copied."""
    made = []
    for node in results:
        if node is None:
            continue
        if node in made or node.op in ("placeholder", "get_attr"):
            with graph.inserting_before(graph.output_node()):
                copy = graph.call_function(aten.clone.default, (node,))
            copy.meta = {key: value for key, value in node.meta.items()
                         if key in ("val", "stack_trace", "nn_module_stack")}
            node = copy
        made.append(node)
    return made


def _refuse_native(imported: Imported) -> None:
    """For any device: what one device lacks, another may have, and the builder of an engine says
    so."""
    settings = Settings.from_options({"min_block_size": 1}).compiler_json(on_cuda=False)
    plan = C.plan(imported.graph, settings, C.DeviceProfile.builtin_default(), whole=True)
    if plan.native:
        raise UnsupportedError("tv.export_graph: these nodes can be in no engine" + reasons(
            [record_of(imported.nodes[index], reason) for index, reason, _ in plan.native
             if index >= 0]))


def _write(file, tensor: torch.Tensor) -> None:
    data = raw_bytes(tensor).numpy()
    for at in range(0, len(data), _LONGEST_PIECE):
        file.write(data[at:at + _LONGEST_PIECE].data)
