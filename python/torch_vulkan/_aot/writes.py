"""What a program changes: buffers, parameters and arguments (docs/design/0017-writing-in-place.md).

torch.export makes new values results of the graph, which whoever runs it copies. An engine that
computes such a value writes it itself where it can; what is left stays a result.
"""

from dataclasses import dataclass

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec

from .._fx.mutation import is_write

_COPY = torch.ops.aten.copy_.default
written_by = torch.ops.torch_vulkan.execute_written.default


def placeholders_of(program: ExportedProgram, graph: fx.Graph) -> dict[str, fx.Node]:
    """What OutputSpec.target says → the placeholder in `graph`, which is the program's."""
    return {spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target: node
            for spec, node in zip(program.graph_signature.input_specs,
                                  graph.find_nodes(op="placeholder"), strict=True)}


@dataclass(frozen=True)
class Writes:
    """What became of a program's results.

    Attributes:
        left: positions of those that are results of the graph.
        specs: what these are.
        written: name of a placeholder → what the new value is that is written over it.
    """

    left: list[int]
    specs: list[OutputSpec]
    written: dict[str, OutputSpec]


def write_last(program: ExportedProgram, graph: fx.Graph) -> Writes:
    """Makes results that are new values of tensors writes behind the graph, as AOTAutograd has
    them."""
    output, places = graph.output_node(), placeholders_of(program, graph)
    results, specs = output.args[0], program.graph_signature.output_specs
    left, written = [], {}
    for i, (spec, value) in enumerate(zip(specs, results, strict=True)):
        target = places.get(spec.target) if spec.kind != OutputKind.USER_OUTPUT else None
        if target is None or not _is_whole(target, value):
            left.append(i)
            continue
        with graph.inserting_before(output):
            copy = graph.call_function(_COPY, (target, value))
        copy.meta["val"] = target.meta["val"]
        written[target.name] = spec
    output.args = (tuple(results[i] for i in left),)
    return Writes(left, [specs[i] for i in left], written)


def _is_whole(target: fx.Node, value) -> bool:
    if not isinstance(value, fx.Node) or value is target:
        return False
    ours, theirs = (node.meta.get("val") for node in (target, value))
    return all(isinstance(v, torch.Tensor) for v in (ours, theirs)) and (
        ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.device == theirs.device)


def results_again(graph: fx.Graph, writes: Writes) -> list[OutputSpec]:
    """Makes the writes that no engine does results again; returns what the results are."""
    output = graph.output_node()
    order = {node: i for i, node in enumerate(graph.nodes)}
    waiting = [node for node in graph.nodes if is_write(node)]
    output.args = ((*(node.args[1] for node in waiting), *output.args[0]),)
    for node in waiting:
        for user in [user for user in node.args[0].users if order[user] > order[node]]:
            user.replace_input_with(*node.args)  # what reads the written value
    specs = [writes.written[node.args[0].name] for node in waiting]
    for node in waiting:
        graph.erase_node(node)
    return [*specs, *writes.specs]


def written_in_place(graph: fx.Graph) -> list[fx.Node]:
    """The placeholders that engines of a compiled graph write."""
    return [node for call in graph.find_nodes(op="call_function", target=written_by)
            for node in call.args[1]]
