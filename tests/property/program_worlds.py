"""What a caller can see of a program's calls, and how two runs of it differ.

A run is a *world*: the program eager, or compiled by a backend, with inputs of its own. It records
values, layout, which tensors share memory, versions, gradients and errors; then it writes into each
output and records again, and in the end looks at what earlier calls had returned.
"""

import contextlib
import warnings
from dataclasses import dataclass, field

import torch
from program_case import Loaded
from program_values import LEAVES
from roundings import Roundings
from torch.utils._pytree import tree_flatten

import torch_vulkan  # noqa: F401  registers the backend

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


@dataclass(frozen=True)
class Difference:
    """What is not eager's: the kind, the call, which tensor, and how."""

    kind: str
    call: int
    where: str
    how: str = field(compare=False, default="")

    def __str__(self):
        return f"call {self.call}: {self.kind} of {self.where}: {self.how}"


@dataclass
class CallRecord:
    """What one call showed."""

    error: str = ""
    message: str = ""
    structure: str = ""
    plain: list = field(default_factory=list)
    facts: dict = field(default_factory=dict)   # name → kind → value, compared exactly
    values: dict = field(default_factory=dict)  # name → tensor, compared with a tolerance


MODES = {"grad": contextlib.nullcontext, "no_grad": torch.no_grad,
         "inference_mode": torch.inference_mode,
         "autocast": lambda: torch.autocast("cpu", torch.bfloat16)}


def run_world(case: Loaded, backend: str | None, perturbed: int | None = None):
    """(records of the calls, warnings of torch_vulkan's). `backend` None: eager; `perturbed`: eager
    with other roundings, by a seed."""
    torch._dynamo.reset()
    program, state, records, kept = case.program, {}, [], []
    if backend is not None:
        options = {"optimization_level": 0, **case.options} if backend == "vulkan" else None
        program = torch.compile(program, backend=backend, dynamic=case.dynamic, options=options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(case.calls):
            with Roundings(perturbed + call) if perturbed is not None else contextlib.nullcontext():
                record, outputs = _one_call(case, program, call, state)
            records.append(record)
            kept.append([(o, _copy(o)) for o in outputs])
    if records:
        for call, pairs in enumerate(kept):
            for i, (now, then) in enumerate(pairs):
                records[-1].facts[f"call {call}'s output {i} later"] = {
                    "later": _equal(_copy(now), then)}
    told = [str(w.message) for w in caught if "torch_vulkan" in str(w.message)]
    return records, told


def _one_call(case: Loaded, program, call: int, state: dict):
    record = CallRecord()
    LEAVES.clear()
    torch.manual_seed(call)
    mode = MODES[case.mode]
    made_in_mode = call % 2 == 1 and case.mode == "inference_mode"
    with torch.inference_mode() if made_in_mode else contextlib.nullcontext():
        args = case.inputs(call, state)
    leaves = [*LEAVES, *state.get("parameters", ())]
    inputs = {f"input {i}": a for i, a in enumerate(tree_flatten(args)[0])
              if isinstance(a, torch.Tensor)}
    for module in (a for a in args if isinstance(a, torch.nn.Module)):
        inputs |= dict(module.named_buffers()) | dict(module.named_parameters())
    versions = {name: _version(t) for name, t in inputs.items()}
    try:
        with mode():
            result = program(*args)
    except Exception as error:  # noqa: BLE001  whatever it is, it is compared
        # A RuntimeError that Dynamo meets while it traces, sooner than eager meets one, is its own.
        traced = isinstance(error, torch._dynamo.exc.TorchRuntimeError)
        record.error = "RuntimeError" if traced else type(error).__name__
        record.message = str(error)
        return record, []
    flat, spec = tree_flatten(result)
    record.structure = str(spec)
    record.plain = ["tensor" if isinstance(v, torch.Tensor) else v for v in flat]
    outputs = {f"output {i}": v for i, v in enumerate(flat) if isinstance(v, torch.Tensor)}
    _describe(record, inputs, outputs, versions)
    for name, t in (*outputs.items(), *inputs.items()):
        record.values[name] = _copy(t)
    _gradients(record, outputs.values(), leaves)
    _write_into_each(record, outputs, inputs)
    return record, list(outputs.values())


def _version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


def _copy(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if t.numel() > 1 << 22:
            t = t[(slice(0, 2),) * t.dim()]
        return t.detach().clone(memory_format=torch.contiguous_format)


def _describe(record: CallRecord, inputs: dict, outputs: dict, versions: dict) -> None:
    """Everything but values; storages are numbered as they first appear."""
    storages: dict[int, int] = {}
    for name, t in (*inputs.items(), *outputs.items()):
        # What has no elements shares none (dropout gives such an argument back, in eager alone).
        storage = t.untyped_storage() if t.numel() else None
        number = storage and storages.setdefault(storage._cdata, len(storages))
        strides = [n for n, size in zip(t.stride(), t.shape) if size != 1]
        record.facts[name] = {
            "shape": list(t.shape), "dtype": t.dtype, "requires_grad": t.requires_grad,
            "has a grad_fn": _has_grad_fn(t), "inference": t.is_inference(),
            "class": type(t).__name__,
            "strides": strides if t.numel() else None,
            "storage": number, "offset": t.storage_offset() if t.numel() else None}
        if name in versions:
            record.facts[name]["version"] = _version(t) > versions[name]
        else:
            record.facts[name]["bytes"] = storage and storage.nbytes()
    for name, t in outputs.items():
        record.facts[name]["is"] = next((n for n, i in inputs.items() if i is t), None)


def _has_grad_fn(t: torch.Tensor) -> bool | str:
    try:
        return t.grad_fn is not None
    except RuntimeError:  # one of several views, changed in place
        return "refused"


def _gradients(record: CallRecord, outputs, leaves) -> None:
    wanted = [o for o in outputs if o.requires_grad and o.dtype.is_floating_point]
    leaves = [t for t in leaves if t.requires_grad]
    if not wanted or not leaves:
        return
    seeds = [torch.linspace(-1, 2, max(o.numel(), 1))[:o.numel()].to(o.dtype).reshape(o.shape)
             for o in wanted]
    try:
        found = torch.autograd.grad(wanted, leaves, seeds, allow_unused=True)
    except Exception as error:  # noqa: BLE001
        record.facts["gradients"] = {"autograd": type(error).__name__}
        return
    for i, grad in enumerate(found):
        record.facts[f"gradient {i}"] = {"gradient": grad is not None}
        if grad is not None:
            record.values[f"gradient {i}"] = _copy(grad)


def _write_into_each(record: CallRecord, outputs: dict, inputs: dict) -> None:
    for i, t in enumerate(outputs.values()):
        with torch.inference_mode() if t.is_inference() else torch.no_grad(), (
                contextlib.suppress(RuntimeError)):  # overlapping elements are not written
            t.detach().fill_(3 + i)
    for name, t in (*outputs.items(), *inputs.items()):
        record.values[f"{name} after writes"] = _copy(t)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(a, b) or (
        a.is_floating_point() and torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5))))


def differences(expected: list[CallRecord], actual: list[CallRecord]) -> list[Difference]:
    """What `actual` has that `expected` has not; after a call that one alone refuses, nothing."""
    found = []
    for call, (e, a) in enumerate(zip(expected, actual, strict=True)):
        if e.error or a.error:
            if e.error != a.error:
                found.append(Difference("error", call, "the call", f"{a.error or 'none'} "
                                        f"({a.message[:600]}) for {e.error or 'none'} "
                                        f"({e.message[:200]})"))
            break
        if e.structure != a.structure or not _same_plain(e.plain, a.plain):
            found.append(Difference("results", call, "the call",
                                    f"{a.plain} for {e.plain}, {a.structure} for {e.structure}"))
            break
        for name, facts in e.facts.items():
            for kind, value in facts.items():
                got = a.facts.get(name, {}).get(kind)
                if got != value:
                    found.append(Difference(kind, call, name, f"{got} for {value}"))
        for name, value in e.values.items():
            got = a.values.get(name)
            if got is not None and got.shape == value.shape and (
                    how := _far(value, got, _largest_dtype(e, name))):
                kind = "written" if name.endswith("after writes") else "values"
                found.append(Difference(kind, call, name, how))
    return found


def _largest_dtype(record: CallRecord, name: str) -> float:
    """The tolerance of a call: that of the coarsest type in it."""
    return max((TOLERANCE.get(t.dtype, 0) for t in record.values.values()), default=0)


def _same_plain(a: list, b: list) -> bool:
    return len(a) == len(b) and all(
        type(x) is type(y) and (x == y or x != x and y != y or isinstance(x, float)
                                and abs(x - y) <= 1e-4 * (1 + abs(x))) for x, y in zip(a, b))


def _far(expected: torch.Tensor, actual: torch.Tensor, tolerance: float) -> str:
    if expected.dtype != actual.dtype:
        return f"{actual.dtype} for {expected.dtype}"
    if not expected.dtype.is_floating_point:
        near = expected == actual
    else:
        scale = expected.double().abs()
        finite = scale[scale.isfinite()]
        largest = finite.max().item() if finite.numel() else 0.0
        limit = tolerance * (scale + min(largest, 1.0) + 1e-3)
        e, a = expected.double(), actual.double()
        near = (e == a) | ((e - a).abs() <= limit) | (e.isnan() & a.isnan())
    if bool(near.all()):
        return ""
    where = torch.nonzero(~near)[0].tolist()
    return (f"{int((~near).sum())} of {near.numel()}: {actual[tuple(where)].item()} for "
            f"{expected[tuple(where)].item()} at {where}")


