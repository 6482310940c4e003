"""tv.compile: compiles a module for given inputs, before its first call."""

import copy
import io
import itertools
import warnings
from collections.abc import Sequence

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from .._aot import archive, exporting, graph_file, seal, writes
from .._aot.early_writes import EarlyWrites
from .._aot.signature import Signature
from .._base import whole_files
from .._base.inputs import Arguments, Profile
from .._base.settings import Settings
from .._dry_run.script import describe as describe_script
from .._engines.engine import Engine, tensor_bytes
from .._fx.mutation import refuse_overlapping
from .._script import programs
from .._torch import compat, transforms
from .._torch.shared_memory import of_one_storage, share_elements


class Program(nn.Module):
    """A compiled module of engines and native operators, made by `tv.compile` or `tv.load`. It is a
    torch module like any other:

    - Its parameters and buffers are the tensors of the module it was made from, under the same
      names. After `load_state_dict` or an in-place change the next call uses the new values.
    - `.to(device)` moves them; engines take tensors of any device. `.half()` and the like are
      refused: kernels are built for the compiled dtypes.
    - `copy.deepcopy` copies the tensors; engines are shared between the copies. They change in one
      way: with background_tuning a tuned engine takes the place of the first, for all copies.
    - Several threads may call it at the same time. Calls compute no gradients.
    """

    def __init__(self, exported: ExportedProgram, signature: Signature, settings: Settings,
                 source: ExportedProgram | bytes | None):
        super().__init__()
        object.__setattr__(self, "_exported", exported)
        self.signature = signature
        self.settings = settings
        self._warned = False
        self._scales = None  # what scale_names found
        self._source = source  # the graph before compilation, to build from on other devices
        self._bind()
        self._adopt(exported.module(check_guards=False))
        self.training = False

    def _bind(self) -> None:
        """What a call needs of the graph. `_changed`: (result, input) of what it writes back;
        `_written`: the inputs that engines write."""
        self._run = self._exported.graph_module.forward
        signature = self._exported.graph_signature
        inputs = {spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target: j
                  for j, spec in enumerate(signature.input_specs)}
        outputs = list(enumerate(signature.output_specs))
        self._changed = [(i, inputs[spec.target]) for i, spec in outputs
                         if spec.kind != OutputKind.USER_OUTPUT]
        self._returned = [i for i, spec in outputs if spec.kind == OutputKind.USER_OUTPUT]
        graph = self._exported.graph
        places = {node: j for j, node in enumerate(graph.find_nodes(op="placeholder"))}
        self._written = [places[node] for node in writes.written_in_place(graph)]
        self._writes = {*self._written, *(j for _, j in self._changed)}
        self._early = EarlyWrites(graph)

    def _adopt(self, graph_module: fx.GraphModule) -> None:
        """Makes the graph module's tensors and sub-modules this module's own."""
        object.__setattr__(self, "_graph_module", graph_module)
        self._parameters = graph_module._parameters
        self._buffers = graph_module._buffers
        self._modules = graph_module._modules
        self._non_persistent_buffers_set = graph_module._non_persistent_buffers_set
        self.__dict__.update(self.engine_objects())  # where torch.export looks for them
        specs = self._exported.graph_signature.input_specs
        self._held = _Held([
            _place(self if spec.kind == InputKind.CUSTOM_OBJ else graph_module, spec.target)
            for spec in specs if spec.kind != InputKind.USER_INPUT])

    def forward(self, *args, **kwargs):
        """Computes the module's results.

        Raises:
            ValueError: an argument is missing or has another structure, dtype or rank, or a
                dimension is outside its range; or the program writes to two that share memory. The
                message names it.
        """
        flat = self.signature.flatten(args, kwargs)
        self.signature.check(flat)
        held = self._held.values()
        given = [*held, *flat]
        if reason := transforms.reason(given):
            return self._run_natively(reason, flat)
        if len(self._writes) > 1:
            self._refuse_shared(given, len(held))
        with torch.no_grad():
            try:
                refuse_overlapping(given[j] for j in self._written)
                refuse_overlapping(given[j] for _, j in self._changed)
                results = self._early.run(self._run, held, flat)
            except NotImplementedError as error:  # sizes that kernels cannot count, too
                return self._run_natively(error, flat)
            for i, j in self._changed:
                given[j].copy_(results[i])
        if self._changed:
            results = [results[i] for i in self._returned]
        return pytree.tree_unflatten(results, self.signature.out_spec)

    def _refuse_shared(self, given: list, held: int) -> None:
        """What is only read is read as it was before the call, whatever memory it shares. Of what
        two writes leave where they meet nothing is promised. given: the first `held` of it the
        module holds, of which torch.export knows what it shares."""
        for group in of_one_storage(given, self._writes):
            for a, b in itertools.combinations(sorted(group), 2):
                if b >= held and share_elements(given[a], given[b]):
                    names = [repr(self.signature.arguments[j - held].name) if j >= held
                             else "a buffer" for j in (a, b)]
                    raise ValueError(
                        f"argument {names[1]} shares memory with {names[0]}, and the program "
                        "writes to both: pass a copy of one (`.clone()`)")

    def _run_natively(self, error, flat):
        """The same by PyTorch, from the graph before compilation, with the current tensors."""
        source = self._source
        if source is None:
            raise error if isinstance(error, Exception) else NotImplementedError(error)
        if not self._warned:
            warnings.warn(f"torch_vulkan: the program runs natively: {error}", stacklevel=4)
            self._warned = True
        source = copy.copy(source if isinstance(source, ExportedProgram)
                           else graph_file.unpack(source))
        now = self.exported_program()
        source._state_dict = {name: now.state_dict[name] for name in source.state_dict}
        source._constants = {name: now.constants.get(name, value)
                             for name, value in source.constants.items()}
        args, kwargs = self.signature.tree(flat)
        module = source.module(check_guards=False)
        transforms.make_derivable(module)
        return module(*args, **kwargs)

    def engine_objects(self) -> dict[str, torch.ScriptObject]:
        """name → engine, in order of execution."""
        return {spec.target: self._exported.constants[spec.target]
                for spec in self._exported.graph_signature.input_specs
                if spec.kind == InputKind.CUSTOM_OBJ}

    def engines(self) -> list[Engine]:
        """Stand-alone engines, with copies of the current weights."""
        return [self._engine(name, obj) for name, obj in self.engine_objects().items()]

    def _engine(self, name, obj) -> Engine:
        engine = Engine(tensor_bytes(obj.vke()), obj.device() or None,
                        weight_budget=obj.weight_budget())
        engine.set_weights([tensor.detach() for tensor in self.weights_of(name)])
        engine.set_conditions(self.signature.conditions)
        return engine

    def weights_of(self, engine: str) -> list[torch.Tensor]:
        """The tensors that an engine takes as weights, in its order."""
        specs = self._exported.graph_signature.input_specs
        targets = {spec.arg.name: spec.target for spec in specs}
        (node,) = (n for n in self._exported.graph.find_nodes(op="placeholder")
                   if targets[n.name] == engine)
        (call,) = node.users

        def value(node):
            if node.op == "placeholder":
                return compat.attribute_of(self._graph_module, targets[node.name])
            args = fx.node.map_arg((node.args, node.kwargs), value)  # as the parts of a complex one
            return node.target(*args[0], **args[1])

        with torch.no_grad():
            return [value(weight) for weight in call.args[-2]]

    def engines_and_weights(self) -> list[tuple]:
        """(engine, its weights in its order) for each engine."""
        return [(engine, self.weights_of(name)) for name, engine in self.engine_objects().items()]

    def exported_program(self) -> ExportedProgram:
        """The program as an ExportedProgram, with the current tensors."""
        exported = copy.copy(self._exported)
        state = dict(self._graph_module.state_dict(keep_vars=True))
        exported._state_dict = {name: state.get(name, tensor)
                                for name, tensor in self._exported.state_dict.items()}
        exported._constants = {name: compat.attribute_of(self._graph_module, name, value)
                               for name, value in self._exported.constants.items()}
        return exported

    def scale_names(self) -> dict:
        """The tensors that are scales or zero points of quantised ones, and what is wanted of them
        (quantised_scales.ScaleOf), as far as the graph before compilation is there to say so."""
        if self._scales is None and self._source is not None:
            source = self._source
            self._scales = exporting.scale_names(
                source if isinstance(source, ExportedProgram) else graph_file.unpack(source))
        return self._scales or {}

    def source_bytes(self) -> bytes | None:
        """The graph before compilation, without weights; None if the file had none."""
        if isinstance(self._source, ExportedProgram):
            self._source = graph_file.pack(self._source)
        return self._source

    def save(self, path, _extra_files=None) -> None:
        """Called by torch.jit.save(program, path): tv.save as a TorchScript module."""
        data = self.save_to_buffer(_extra_files)
        with whole_files.written(path, "torch.jit.save") as file:
            file.write(data)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """Called by torch.jit.save(program, file)."""
        if _extra_files:
            raise ValueError("torch.jit.save: a compiled program takes no extra files; "
                             "tv.save(program, path, output_format='torchscript') writes it")
        buffer = io.BytesIO()
        archive.write(self, buffer, "torchscript")
        seal.close(buffer)
        return buffer.getvalue()

    def _apply(self, fn, recurse=True):
        for tensor in [*self.parameters(), *self.buffers()]:
            empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            if fn(empty).dtype != tensor.dtype:
                raise ValueError(
                    f"a compiled program keeps its dtypes, {tensor.dtype} here: convert the module "
                    "and compile it again, or see the setting enabled_precisions")
        super()._apply(fn, recurse)
        for name, value in self._exported.constants.items():
            held = compat.attribute_of(self._graph_module, name, None)
            if isinstance(value, torch.Tensor) and isinstance(held, torch.Tensor) and (
                    name not in self._exported.graph_signature.non_persistent_buffers):
                compat.set_attribute(self._graph_module, name, fn(held))
        return self

    def train(self, mode: bool = True):
        """Refuses training mode: a program stays as it was captured."""
        if mode:
            raise NotImplementedError(
                "a compiled program has no training mode: train the module, then call "
                "tv.refit(program, module)")
        return self

    def __copy__(self):
        twin = Program.__new__(Program)
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce_ex__(self, protocol):
        raise TypeError("a compiled program is not pickled: tv.save(program, path) writes it to a "
                        "file, tv.load reads it, also in other processes")

    def __deepcopy__(self, memo):
        for engine in self.engine_objects().values():
            memo[id(engine)] = engine  # shared
        twin = Program.__new__(Program)
        memo[id(self)] = twin
        nn.Module.__init__(twin)
        object.__setattr__(twin, "_exported", self._exported)
        twin.signature, twin.settings, twin._source = self.signature, self.settings, self._source
        twin._warned, twin._scales = self._warned, self._scales
        twin._bind()
        twin._adopt(copy.deepcopy(self._graph_module, memo))
        twin.training = False
        return twin

    def __repr__(self):
        return (f"Program({len(self.engine_objects())} engine(s), "
                f"{sum(t.numel() for t in self.parameters())} parameters)")


class _Held:
    """What a program holds for its graph, by the dicts that contain it. (torch.export copies lists
    and dicts among a module's attributes, but not this.)"""

    def __init__(self, places: list[tuple[dict, str]]):
        self._places = places

    def values(self) -> list:
        return [holder[name] for holder, name in self._places]


def _place(module: nn.Module, path: str) -> tuple[dict, str]:
    """Where a module holds the attribute "a.b.c". Looked up at every call, because tensors may be
    replaced."""
    *outer, name = path.split(".")
    owner = compat.attribute_of(module, ".".join(outer)) if outer else module
    return next((holder, name) for holder in (owner._parameters, owner._buffers, owner.__dict__)
                if name in holder)


def compile(module: nn.Module | ExportedProgram, inputs=None, *,  # noqa: A001
            kwarg_inputs=None, profiles: Sequence[Profile] = (), **settings,
            ) -> "Program | torch.jit.ScriptModule":
    """Compiles a module ahead of time.

    Args:
        module: a module in the mode in which it is to run (`.eval()`), an ExportedProgram, or a
            TorchScript module, scripted or traced (docs/torchscript.md).
        inputs: a list with one item for each argument, or a dict by keyword. An item is a
            `tv.Input`, an example tensor, a number, or a list, tuple or dict of these. May be None
            for an ExportedProgram, which knows its shapes.
        kwarg_inputs: inputs passed by keyword, beside a list of inputs.
        profiles: parts of the ranges of `inputs`, each with its own kernels; a call uses the one
            whose opt shapes are nearest. None: one for the whole range.
        settings: docs/settings.md.

    Returns:
        A callable module of engines and native operators, whose weights are the module's own
        tensors. For a TorchScript module it is a TorchScript module.

    Raises:
        ValueError: an invalid setting, input or profile.
        UnsupportedError: torch.export cannot capture the module.
        DeviceError: there is no Vulkan device.
    """
    checked = Settings.from_options(settings, taken_by=compile)
    arguments = Arguments.of(inputs, kwarg_inputs) if inputs is not None or kwarg_inputs else None
    if isinstance(module, torch.jit.ScriptModule):
        checked.refuse_background_tuning("tv.compile", "a TorchScript module is built at once")
        if profiles:
            raise ValueError("profiles: a TorchScript module is compiled for the sizes of `inputs`")
        if checked.builds_nothing:
            describe_script(module, arguments, checked)
            return module
        return programs.compile_module(module, arguments, checked)
    source = exporting.captured(module, arguments, "tv.compile")
    given = arguments.leaves() if arguments else None
    choices = [profile.divide(exporting.signature_of(source, given)) for profile in profiles]
    return compile_source(source, given, checked, choices)


def compile_source(source: ExportedProgram, given: list | None, settings: Settings,
                   choices: Sequence = (), outputs: Sequence[str] = ()) -> Program:
    """The same from an ExportedProgram and what was given for its flattened arguments, for each
    profile in `choices`; `outputs`: names for what engines return."""
    exporting.check_scales(source)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = exporting.decompose(source)
        signature = exporting.signature_of(program, given, choices)
        compiled = exporting.compile_exported(program, signature, settings, source, outputs)
        return Program(compiled, signature, settings, source)


def engines(program: nn.Module) -> list[Engine]:
    """The engines of a compiled program, in order of execution, as stand-alone engines with copies
    of the program's weights. With background_tuning they are those that answer now:
    `tv.wait_for_tuning()` first gives the tuned ones.

    Raises:
        ValueError: `program` was not made by tv.compile or tv.load.
    """
    if programs.is_script(program):
        return [programs.engine_of(name, *held)
                for name, held in programs.engines_of(program).items()]
    if not isinstance(program, Program):
        raise ValueError(f"tv.engines: got {type(program).__name__}, want what tv.compile or "
                         "tv.load returned")
    return program.engines()
