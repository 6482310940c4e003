"""One sample through the importer, the compiler and the device, without Dynamo; or planned alone,
without a device."""

import copy
import functools
import gc
import time
import warnings
from dataclasses import asdict, dataclass

import torch
from opinfo_compare import difference
from opinfo_forms import can_run, either, flushed, in_form, takes_part, transformed, unnamed
from opinfo_samples import ENTRIES, UNINITIALISED, Pair, seed_cpu
from torch._decomp.decompositions_for_rng import PhiloxStateTracker
from torch._functorch.aot_autograd import aot_function
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from torch_vulkan import compilations
from torch_vulkan._base.settings import Settings
from torch_vulkan._dry_run.sessions import Session, Watch
from torch_vulkan._dynamo import backend
from torch_vulkan._native import C
from torch_vulkan._torch.kept_composites import keep_composites

from denormals import flushes_denormals

OPTIONS = {"min_block_size": 1, "pass_through_build_failures": True, "optimization_level": 0,
           "cache_built_engines": False, "reuse_cached_engines": False}

# Raised while a sample is captured whose sizes or whose path depend on data.
_ON_DATA = ("DataDependentOutputException", "DynamicOutputShapeException",
            "GuardOnDataDependentSymNode")


@dataclass
class Outcome:
    """What became of a sample.

    Attributes:
        kind: "engine" (all compute nodes), "native" (some not), "free" (no compute nodes), "wrong",
            "crash" (an error of ours), "skipped" (eager or the capture refuses the sample).
        reason: why, where that is not "engine".
        native: operator → reason of each node that PyTorch ran.
    """

    kind: str
    reason: str = ""
    native: dict | None = None
    compute_nodes: int = 0
    ms: float = 0

    def record(self) -> dict:
        """As JSON-able data, without what is empty."""
        return {k: v for k, v in asdict(self).items() if v}


class _Sample:
    """A function of tensors alone."""

    def __init__(self, pair: Pair, sample, form: str = "plain"):
        self.op = ENTRIES[pair.entry]
        leaves, self._spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        self._fixed = [None if isinstance(v, torch.Tensor) else v for v in leaves]
        self._places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        self.tensors = in_form(form, pair.entry, [leaves[i].detach() for i in self._places])
        self._finish = sample.output_process_fn_grad if pair.gradient else lambda x: x
        self._gradient = pair.gradient
        self._in_double = False
        self._first_alone = False
        self._transforms = pair.entry.startswith("fft_")

    def __call__(self, *tensors):
        leaves = list(self._fixed)
        if self._in_double:
            leaves = [_wide(v) if isinstance(v, torch.dtype) else v for v in leaves]
        for i, tensor in zip(self._places, tensors, strict=True):
            leaves[i] = tensor
        given, args, kwargs = tree_unflatten(leaves, self._spec)
        results = tree_leaves(self._finish(self.op(given, *args, **kwargs)))
        return [r for r in results if isinstance(r, torch.Tensor)]

    def call(self, function, convert=lambda t: t) -> list[torch.Tensor]:
        """The results of `function`, eager or compiled, or the gradients of its inputs."""
        seed_cpu(1)
        inputs = [convert(t).detach() for t in copy.deepcopy(self.tensors)]
        if not self._gradient:
            with torch.no_grad():
                return [r.detach() for r in function(*inputs)]
        for i, tensor in enumerate(inputs):
            tensor.requires_grad_(tensor.is_floating_point() and not (i and self._first_alone))
        outputs = [o for o in function(*inputs) if o.requires_grad and o.layout == torch.strided]
        wanted = [t for t in inputs if t.requires_grad]
        if not outputs or not wanted:
            return []
        seeds = [torch.linspace(-1, 2, max(o.numel(), 1)).to(o.dtype)[:o.numel()].reshape(o.shape)
                 for o in outputs]
        found = torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)
        return [g for g in found if g is not None]

    def expected(self) -> list[torch.Tensor]:
        """What eager gives; gradients of the first tensor alone where others have none."""
        try:
            return self.call(self)
        except RuntimeError as error:
            if "not differentiable" not in str(error) and "not implemented" not in str(error):
                raise
            self._first_alone = True
            return self.call(self)

    def _doubled(self, tensor):
        """Integers are positions elsewhere; what is transformed is a number."""
        if tensor.is_complex():
            return tensor.to(torch.complex128)
        return tensor.double() if tensor.is_floating_point() or self._transforms else tensor

    def either_reading(self, actual, expected) -> list[torch.Tensor]:
        """What eager gives for denormals, or for zeros in their place: what results are near to."""
        try:
            zeros = self.call(self, flushed)
        except RuntimeError:  # 0 is no argument
            return expected
        return [either(*results) for results in zip(actual, expected, zeros, strict=True)]

    def in_double(self):
        """The results in float64; None where the entry does not compute in it."""
        self._in_double = True
        try:
            return self.call(self, self._doubled)
        except Exception:  # noqa: BLE001 - whatever it is, there is no reference then
            return None
        finally:
            self._in_double = False


def calm() -> None:
    """Sets up this process, and spares what takes time at every sample: seeds of other devices
    (10 ms), looking for garbage in what is loaded by now (5 ms), and AOTAutograd's state of random
    numbers, which nothing here uses (3 ms)."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        for module in (torch.cuda, torch.xpu, torch.mtia):
            module.manual_seed_all = lambda seed: None
    PhiloxStateTracker.reset()
    PhiloxStateTracker.reset = lambda: None
    gc.collect()
    gc.freeze()
    gc.set_threshold(50000, 20, 20)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that an argument names, of the reference."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


@functools.cache
def _settings() -> Settings:
    return Settings.from_options(OPTIONS)


class _Compiler:
    """The backend below Dynamo: AOTAutograd, then what torch.compile does; with a session, what a
    dry run does."""

    def __init__(self, session: Session | None = None):
        self.failure = None
        self._settings = session.settings if session else _settings()
        self._watch = Watch(session) if session else None

    def __call__(self, function):
        traced = aot_function(function, fw_compiler=self._kind("forward"),
                              bw_compiler=self._kind("backward"),
                              inference_compiler=self._kind("inference"),
                              decompositions=backend.decompositions())

        def call(*tensors):
            with keep_composites():
                return traced(*tensors)
        return call

    def _kind(self, kind: str):
        def compile_graph(module, _):
            try:
                return backend.compile_graph_module(module, kind, self._settings, set(),
                                                    self._watch)
            except Exception as error:
                self.failure = error
                raise
        return compile_graph


def run(pair: Pair, sample, form: str = "plain") -> Outcome:
    """Compiles one sample, its tensors in one of opinfo_forms.FORMS, runs it and compares."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _run(pair, sample, form)
    natively = [str(w.message) for w in caught if "runs natively" in str(w.message)]
    if natively and outcome.kind == "engine":
        outcome = Outcome("native", natively[0], {"run": natively[0]}, outcome.compute_nodes)
    outcome.ms = round((time.perf_counter() - start) * 1000, 1)
    return outcome


def _run(pair: Pair, sample, form: str) -> Outcome:
    if not can_run(form, pair.entry):
        return Outcome("skipped", "eager ends the process")
    case = _Sample(pair, sample, form)
    try:
        expected = case.expected()
    except Exception as error:  # noqa: BLE001 - some samples are of other devices
        return Outcome("skipped", f"eager: {_text(error)}")
    compilations.clear()
    compiler = _Compiler()
    try:
        actual = case.call(compiler(case))
    except Exception as error:  # noqa: BLE001 - every error of ours is a finding
        return _failure(pair, compiler, error)
    made = compilations.compilations()
    if not made:
        return Outcome("free")
    if form == "denormal" and flushes_denormals() and len(actual) == len(expected):
        expected = case.either_reading(actual, expected)
    values = pair.entry not in UNINITIALISED and not _random(made)
    if len(actual) == len(expected):
        actual, expected = unnamed(form, pair.entry, actual, expected,
                                   transformed(pair.entry, sample))
    why = difference(case.op, actual, expected, case,
                     values=values and takes_part(form, pair.entry), gradient=pair.gradient)
    if why and not difference(case.op, actual, _traced(case), case, gradient=pair.gradient):
        return Outcome("skipped", f"capture: AOTAutograd by itself gives {why}")
    return Outcome("wrong", why, _native(made)) if why else _covered(made)


def plan(pair: Pair, sample) -> Outcome:
    """What would become of a sample, for the built-in profile: the same on every machine. Never
    "wrong"; "crash", "free" and "skipped" as `run` has them, but for results that differ."""
    case = _Sample(pair, sample)
    try:
        case.expected()
    except Exception as error:  # noqa: BLE001 - as in _run
        return Outcome("skipped", f"eager: {_text(error)}")
    compilations.clear()
    session = Session(_settings().replaced(dryrun=True), C.DeviceProfile.builtin_default())
    compiler = _Compiler(session)
    try:
        case.call(compiler(case))
    except Exception as error:  # noqa: BLE001 - as in _run
        return _failure(pair, compiler, error)
    graphs = [graph.details.data for graph in session.findings.graphs]
    return _outcome(sum(graph["compute_nodes"] for graph in graphs),
                    sum(graph["covered_nodes"] for graph in graphs),
                    _native(compilations.compilations()))


def _traced(case: _Sample) -> list[torch.Tensor]:
    """The results of what AOTAutograd captures, run by PyTorch."""
    return case.call(aot_function(case, fw_compiler=lambda g, _: g, bw_compiler=lambda g, _: g))


def _failure(pair: Pair, compiler: _Compiler, error: Exception) -> Outcome:
    if compiler.failure is None and "refers to a single memory location" in str(error):
        return Outcome("skipped", f"PyTorch writes to no expanded tensor: {_text(error)}")
    if compiler.failure is None and not compilations.compilations():
        if type(error).__name__ in _ON_DATA:
            return Outcome("native", "its sizes depend on data", {pair.entry: "depends on data"})
        return Outcome("skipped", f"capture: {_text(error)}")
    return Outcome("crash", _text(error))


def _native(made) -> dict[str, str]:
    return {n.op: n.reason for graph in made for n in graph.native}


def _random(made) -> bool:
    """Whether it draws random numbers. Entries seed the generator inside, which no graph holds."""
    return any("random numbers" in reason for reason in _native(made).values())


def _covered(made) -> Outcome:
    return _outcome(sum(graph.compute_nodes for graph in made),
                    sum(graph.covered_nodes for graph in made), _native(made))


def _outcome(compute: int, covered: int, native: dict[str, str]) -> Outcome:
    if compute == 0:
        return Outcome("free")
    if compute == covered:
        return Outcome("engine", compute_nodes=compute)
    first = next(iter(native.items()), ("", "in no engine"))
    return Outcome("native", f"{first[0]}: {first[1]}", native, compute)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
