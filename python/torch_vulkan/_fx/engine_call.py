"""The part of a compiled graph that one engine runs."""

import contextlib
import time
import warnings

import torch
from torch import fx, nn

from .._base.dtypes import NARROWED
from .._base.progress import progress_for
from .._base.settings import Settings
from .._engines import background
from .._engines.background import Tuning
from .._engines.engine import split_vke, tensor_bytes
from .._native import C
from .._torch import compat, transforms
from .._torch.strides import promised
from ..compilations import EngineRecord
from .engine_graph import EngineGraph
from .fx_nodes import attribute
from .held_weights import HeldWeights
from .mutation import is_write
from .symbols import BIAS

_execute = torch.ops.torch_vulkan.execute.default
_execute_held = torch.ops.torch_vulkan.execute_held.default

# What a call recovers from by running natively: no memory on the device, a device that was lost,
# a shape that kernels cannot take.
RECOVERABLE = (torch.OutOfMemoryError, torch.AcceleratorError, NotImplementedError)


_collectors: list[list] = []


@contextlib.contextmanager
def collected(calls: list):
    """Appends every EngineCall that is built inside to `calls`."""
    _collectors.append(calls)
    try:
        yield
    finally:
        _collectors.remove(calls)


# How a message begins that says of values in tensors what PyTorch would.
REFUSED = "[check_indices]"


class UnexpectedInput(RuntimeError):
    """An argument that the captured graph does not allow, as a size that a check behind nonzero
    forbids. The call runs natively: PyTorch has a result, or an error of its own."""


class BuildError(RuntimeError):
    """The compiler refused a block that the partitioner had given it."""


def compile_graph(graph, settings: str, profile, progress, cache: str) -> bytes:
    """The engine of a block, as a .vke file. Raises BuildError where a node of it is refused."""
    plan = C.plan(graph, settings, profile, whole=True)
    if plan.refusals:
        raise BuildError("; ".join(plan.refusals))
    return C.build(plan, 0, progress, cache)


class EngineCall(nn.Module):
    """Calls an engine with the arguments of the sub-module that it was made from.

    Attributes:
        engine: the torch custom class.
        native: the sub-module itself, for when the device fails.
        record: name, size and build time.
    """

    def __init__(self, graph: EngineGraph, engine, settings: Settings, record: EngineRecord):
        super().__init__()
        self.input_positions = graph.inputs
        self.weight_positions = graph.weights
        self.number_positions = graph.numbers
        self.engine = engine
        self.native = graph.native
        self.record = record
        self.casts = _casts(graph.outputs, settings.truncate_long_and_double)
        self.device = _device_of_results(graph)
        self.strides = _other_strides(graph.outputs, self.vke())
        self.writes = any(is_write(node) for node in self.native.graph.nodes)
        self._held = HeldWeights()
        self._warned = False

    def forward(self, *args):
        """The outputs of the sub-module, as a list."""
        inputs = [args[i] for i in self.input_positions]
        try:
            inputs += [carrier(args[i], bias) for i, bias in self.number_positions]
            return self.outputs(inputs, [args[i] for i in self.weight_positions])
        except (IndexError, RuntimeError) as error:
            return self.instead(error, args)

    def instead(self, error, args):
        """What PyTorch makes of arguments for which the engine raised `error`."""
        if isinstance(error, UnexpectedInput):  # before anything was computed or written
            expected = not self._other_values(args)
            return self.run_natively(f"{error} (a bug in torch_vulkan: please report it)"
                                     if expected else error, args)
        if isinstance(error, RECOVERABLE):
            return self.run_natively(error, args)
        if any(map(_is_batched, args)):  # PyTorch says it of the operator, before it runs
            return self.run_natively("engines have no batching rule (vmap, is_grads_batched, "
                                     "jacobian with vectorize=True)", args)
        return self.refuse_natively(error, args)

    def _other_values(self, args) -> bool:
        """Whether an operator before gave another dtype or size than its meta kernel says, or a
        guard is missing: Dynamo's on an argument whose `.data` the program replaces."""
        placeholders = self.native.graph.find_nodes(op="placeholder")
        return any(isinstance(arg, torch.Tensor) and _differs(arg, node.meta["val"])
                   for arg, node in zip(args, placeholders, strict=True))

    def vke(self) -> bytes:
        """The engine's file, without weights."""
        return tensor_bytes(self.engine.vke())

    def outputs(self, inputs, weights):
        """What the engine makes of its own inputs and weights."""
        held = self._held.hold(weights)
        try:
            outputs = (_execute(inputs, weights, self.engine) if held is None else
                       _execute_held(inputs, held, self.engine))
        except ValueError as error:
            raise UnexpectedInput(str(error)) from error
        if self.casts:
            outputs = [o if d is None else o.to(d)
                       for o, d in zip(outputs, self.casts, strict=True)]
        if self.device is not None:
            outputs = [o.to(self.device) for o in outputs]
        for i, strides in self.strides:
            outputs[i].as_strided_(outputs[i].shape, strides)  # no view: those are not written to
        return outputs

    def refuse_natively(self, error, args):
        """What PyTorch says to values that a kernel refused (`check_indices`), in its own words. On
        CUDA tensors an error tells of an earlier call, and PyTorch's own would end the process's
        use of CUDA; what the engine has written in place is not to be written twice."""
        on_cuda = any(isinstance(a, torch.Tensor) and a.is_cuda for a in args)
        if on_cuda or self.writes or REFUSED not in str(error):
            raise error
        outputs = as_eager_raises(self.native, args)  # raises, unless PyTorch has a result
        self._warn(error)
        return list(outputs)

    def run_natively(self, error, args):
        """The same by PyTorch, where the engine could not; warns once."""
        self._warn(error)
        if transforms.in_dual_level():
            transforms.make_derivable(self.native)
        return list(self.native(*args))

    def _warn(self, error):
        if not self._warned:
            warnings.warn(f"torch_vulkan: {self.record.name} runs natively: {error}", stacklevel=4)
            self._warned = True


# What operators raise for an index out of range whose decompositions raise another type.
_aten = torch.ops.aten
_RAISES = {_aten.nll_loss_forward: IndexError, _aten.nll_loss2d_forward: IndexError,
           _aten.nll_loss_backward: IndexError, _aten.nll_loss2d_backward: IndexError,
           _aten.max_unpool2d: RuntimeError, _aten.max_unpool3d: RuntimeError}


def as_eager_raises(native: fx.GraphModule, args):
    """What a graph of decomposed operators gives, or the type of error that the operators of the
    program raise."""
    run = _Located(native)
    run.extra_traceback = False
    try:
        return run.run(*args)
    except (IndexError, RuntimeError) as error:
        original = getattr(run.at.meta.get("original_aten"), "overloadpacket", None)
        eager = _RAISES.get(original, type(error))
        if isinstance(error, eager):
            raise
        raise eager(str(error)) from error


class _Located(fx.Interpreter):
    """Knows the node that it runs."""

    def run_node(self, node):
        self.at = node
        return super().run_node(node)


def _is_batched(value) -> bool:
    """True for a tensor that stands for a batch of them."""
    return isinstance(value, torch.Tensor) and (
        torch._C._functorch.is_batchedtensor(value)
        or torch._C._functorch.is_legacy_batchedtensor(value))


def _differs(tensor: torch.Tensor, said: torch.Tensor) -> bool:
    sizes = zip(tensor.shape, said.shape, strict=False)
    return tensor.dtype != said.dtype or tensor.dim() != said.dim() or any(
        n != s if isinstance(s, int) else n not in compat.range_of(s) for n, s in sizes)


def carrier(number: int, bias: int) -> torch.Tensor:
    """A number as an engine takes it: as the size of a tensor without elements."""
    if not -BIAS < number < BIAS:
        raise NotImplementedError(f"a number is {number}; engines take those below 2^62")
    return torch.empty([number + bias, 0], dtype=torch.uint8)


def _casts(outputs, truncate: bool):
    """dtypes to cast results back to; None if nothing was truncated."""
    dtypes = [node.meta["val"].dtype for node in outputs] if truncate else []
    casts = [d if d in NARROWED else None for d in dtypes]
    return casts if any(casts) else None


def _device_of_results(graph: EngineGraph) -> torch.device | None:
    """Where results go when no argument says it."""
    if graph.inputs or graph.weights or not graph.outputs:
        return None
    device = graph.outputs[0].meta["val"].device
    return None if device.type == "cpu" else device


def _other_strides(outputs, vke: bytes) -> list[tuple[int, list[int]]]:
    """Outputs of fixed shape whose strides PyTorch writes otherwise than the engine does, though
    they mean the same: dimensions of size 1 and empty tensors."""
    found = []
    bindings = C.vke_info(split_vke(vke)[0])["outputs"]
    for i, (node, binding) in enumerate(zip(outputs, bindings, strict=True)):
        want = promised(node.meta["val"])
        want = list(torch.empty(node.meta["val"].shape, device="meta").stride()) if (
            want is None) else want
        fixed = all(isinstance(v, int) for v in (*want, *binding["strides"]))
        if fixed and want != binding["strides"]:
            found.append((i, want))
    return found


class _Files:
    """Makes the file of an engine: one .vke for each shape profile."""

    def __init__(self, name: str, graphs: list, settings: Settings, profile, debug_dir: str):
        self._name, self._graphs, self._settings = name, graphs, settings
        self._profile, self._debug_dir = profile, debug_dir

    def tuned_before(self) -> torch.Tensor | None:
        """What the engine cache has of the level that was asked for."""
        compiler, cache = self._settings.compiler_json(self._debug_dir), self._settings.cache_json()
        files = []
        for graph in self._graphs:
            plan = C.plan(graph, compiler, self._profile, whole=True)
            if plan.refusals or (file := C.find_built(plan, 0, cache)) is None:
                return None
            files.append(file)
        return self._joined(files)

    def built(self, settings: Settings) -> torch.Tensor:
        """The engine of these settings."""
        files = []
        for graph in self._graphs:
            progress = progress_for(self._name, settings.progress)
            files.append(compile_graph(graph, settings.compiler_json(self._debug_dir),
                                       self._profile, progress, settings.cache_json()))
            if progress:
                progress.close()
        return self._joined(files)

    def tuned(self, on_progress) -> torch.Tensor:
        """The engine that was asked for; `on_progress` may raise to end the work."""
        compiler = self._settings.compiler_json(self._debug_dir and f"{self._debug_dir}_tuned")
        return self._joined([compile_graph(graph, compiler, self._profile, on_progress,
                                           self._settings.cache_json()) for graph in self._graphs])

    @staticmethod
    def _joined(files: list[bytes]) -> torch.Tensor:
        vke = b"".join(dict.fromkeys(files))  # profiles may differ in symbols not in here
        with compat.no_fake_mode():
            return torch.frombuffer(bytearray(vke), dtype=torch.uint8)


def build(name: str, graph: EngineGraph, settings: Settings, device: str, profile,
          compute_nodes: int, debug_dir: str = "") -> EngineCall:
    """Compiles the graph of the sub-module `name` and opens the engine. With background_tuning it
    is one of level 0, where the cache has no tuned one, and another begins to be tuned.

    Raises:
        BuildError: the compiler refused it.
    """
    start = time.perf_counter()
    files = _Files(name, graph.graphs, settings, profile, debug_dir)
    vke, tuning = None, None
    if settings.tunes_in_background and (vke := files.tuned_before()) is None:
        vke, tuning = files.built(settings.replaced(optimization_level=0)), Tuning(name)
    elif vke is None:
        vke = files.built(settings)
    with compat.no_fake_mode():
        engine = torch.classes.torch_vulkan.Engine(
            vke, device, settings.immutable_weights, settings.truncate_long_and_double)
        engine.set_weight_budget(settings.weight_budget)
        engine.open()
    dispatches = engine.dispatches()
    record = EngineRecord(name, compute_nodes, dispatches, time.perf_counter() - start, tuning)
    call = EngineCall(graph, engine, settings, record)
    for calls in _collectors:
        calls.append(call)
    if tuning is not None:
        background.start(tuning, engine, files.tuned)
    return call


def constants_of(module: fx.GraphModule, node: fx.Node):
    """The tensor of a get_attr node."""
    return attribute(module, node.target)
