"""tv.validate: how near a compiled model is to the model, over a set of inputs."""

import inspect
import json
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from .._base import whole_files

METRICS = ("max_abs_error", "mean_abs_error", "max_rel_error", "cosine", "top_1", "top_5")
# Of these a small value is the bad one; of the others (and of a caller's own) a large one.
_HIGH_IS_GOOD = ("cosine", "top_1", "top_5")
_COUNTS = ("elements", "outside")  # of an output, beside its metrics
_WORST = 5  # inputs that are named

Metric = Callable[[torch.Tensor, torch.Tensor], float]


@dataclass
class Validation:
    """What tv.validate found. `print(validation)` is for people, `to_json` for tools.

    Attributes:
        passed: whether every element is within the tolerances.
        count: how many inputs were compared.
        rtol, atol: the tolerances.
        outputs: name → {"elements", "outside", and for each metric its "mean" and "worst" over the
            inputs}; a metric that does not apply to an output is not there.
        worst: the inputs with the greatest errors, worst first: {"input": its number, "output",
            "error": max |got - want| / (atol + rtol |want|), which passes up to 1, "index" of the
            element, "want", "got"}; those of complex outputs are text in the JSON.
    """

    passed: bool
    count: int
    rtol: float
    atol: float
    outputs: dict[str, dict] = field(default_factory=dict)
    worst: list[dict] = field(default_factory=list)

    def to_json(self, path=None) -> str:
        """JSON text; written to `path` where given. Numbers that JSON does not have are text."""
        data = {"format": "torch_vulkan.validation", "version": 1, "passed": self.passed,
                "count": self.count, "rtol": self.rtol, "atol": self.atol,
                "outputs": self.outputs, "worst": self.worst}
        text = json.dumps(_plain(data), indent=1, allow_nan=False)
        if path is not None:
            whole_files.write_text(path, text + "\n", "validation")
        return text

    def __str__(self) -> str:
        lines = [f"{'PASSED' if self.passed else 'FAILED'}: {self.count} inputs, rtol "
                 f"{self.rtol:g}, atol {self.atol:g}"]
        for name, found in self.outputs.items():
            lines.append(f"  {name}: {found['outside']} of {found['elements']} elements outside" if
                         found["elements"] else f"  {name}: empty, so nothing was compared")
            lines += [f"    {metric:<16} mean {value['mean']:<12.6g} worst {value['worst']:.6g}"
                      for metric, value in found.items() if isinstance(value, dict)]
        if self.worst:
            lines.append("  worst inputs:")
        lines += [f"    {w['input']}: {w['output']}{w['index']} got {_shown(w['got'])}, want "
                  f"{_shown(w['want'])} ({w['error']:.3g} of the tolerance)" for w in self.worst]
        return "\n".join(lines)


def validate(model: Callable, program: Callable, data: Iterable, rtol: float = 1e-3,
             atol: float = 1e-4,
             metrics: Sequence[str] | Mapping[str, Metric] | None = None) -> Validation:
    """Runs a model and what was compiled from it on the same inputs, and compares their results.

    Args:
        model: the reference: a module or function.
        program: of tv.compile, tv.load, torch.compile or tv.onnx.compile, or any function.
        data: inputs: of each a tensor, a tuple or list of arguments, or a dict of keywords. It is
            read once and not kept.
        rtol, atol: an element is within the tolerances if |got - want| <= atol + rtol |want|.
            Integers and bools must be equal, NaNs and infinities at the same places.
        metrics: which of "max_abs_error", "mean_abs_error", "max_rel_error", "cosine" (of an output
            as a vector), "top_1" and "top_5" (the share of the first one and five indices of each
            row that both have, for outputs with rows that long); or name → function of (want, got)
            that gives a number. None: all of the former.

    Raises:
        ValueError: no data, no results, an unknown metric, results of another structure, dtype or
            shape, or that are neither tensors nor numbers. A tensor, and a list or dict of one,
            have the same structure.
    """
    functions = _metrics(metrics)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not (isinstance(value, numbers.Real) and value >= 0):
            raise ValueError(f"tv.validate: {name}: got {value!r}, want a number from 0 up")
    if isinstance(data, (torch.Tensor, Mapping)):
        raise ValueError(f"tv.validate: data: got one {type(data).__name__}, want inputs, of which "
                         "this may be the first: [data]")
    found = _Found(functions, float(rtol), float(atol))
    with torch.no_grad():
        for number, item in enumerate(data):
            _check_arguments(number, model, item)
            want, got = _called(model, item), _called(program, item)
            found.add(number, want, got)
    validation = found.validation()
    if not validation.passed and getattr(model, "training", False):
        warnings.warn("torch_vulkan: tv.validate: the model is in training mode, in which it may "
                      "give other results at each call: model.eval()", stacklevel=2)
    return validation


def _metrics(given) -> dict[str, Metric]:
    if isinstance(given, Mapping):
        for name, function in given.items():
            if not callable(function):
                raise ValueError(f"tv.validate: metrics: {name!r}: got {function!r}, want a "
                                 "function of (want, got)")
            if not isinstance(name, str) or name in _COUNTS:
                raise ValueError(f"tv.validate: metrics: got the name {name!r}, want a text other "
                                 f"than {' and '.join(map(repr, _COUNTS))}, which are counts")
        return dict(given)
    if isinstance(given, str):
        given = [given]
    for name in given or ():
        if name not in METRICS:
            raise ValueError(f"tv.validate: metrics: got {name!r}, want {', '.join(METRICS)}, or a "
                             "dict of functions")
    return {name: _FUNCTIONS[name] for name in (METRICS if given is None else given)}


def _check_arguments(number, model, item) -> None:
    """A loader of a data set gives pairs of an input and its label."""
    if not isinstance(item, (tuple, list)) or len(item) < 2:
        return
    try:
        signature = inspect.signature(getattr(model, "forward", model))
    except (TypeError, ValueError):  # of a function that has none
        return
    try:
        signature.bind(*item)
    except TypeError as error:
        raise ValueError(
            f"tv.validate: input {number}: got {len(item)} values, and the model takes others: "
            f"{error}; of pairs with a label give the inputs alone: (x for x, label in loader)"
        ) from None


def _called(function, item) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of the results; arguments are copied, as a model may write to its inputs."""
    item = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, item)
    if isinstance(item, Mapping):
        result = function(**item)
    elif isinstance(item, (tuple, list)):
        result = function(*item)
    else:
        result = function(item)
    leaves, _ = pytree.tree_flatten_with_path(result)
    return [(name := f"output{pytree.keystr(path)}", _tensor(name, leaf))
            for path, leaf in leaves if leaf is not None]


def _tensor(name: str, value) -> torch.Tensor:
    """A result, on the CPU; raises ValueError for what is no tensor."""
    try:
        tensor = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"tv.validate: {name}: got {type(value).__name__}, want a tensor, an "
                         f"array or a number ({error})") from None
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


class _Found:
    """What is known so far."""

    def __init__(self, functions, rtol, atol):
        self._functions, self._rtol, self._atol = functions, rtol, atol
        self._count = 0
        self._outputs: dict[str, dict] = {}
        self._sums: dict[tuple[str, str], list[float]] = {}
        self._worst: list[dict] = []

    def add(self, number: int, want, got) -> None:
        """Compares the results for one input."""
        if len(want) == len(got) == 1 and "output" in (want[0][0], got[0][0]):
            got = [(want[0][0], got[0][1])]  # of a tensor and a list of one
        given = dict(got)
        names, others = [name for name, _ in want], [name for name, _ in got]
        if sorted(names) != sorted(others):
            raise ValueError(f"tv.validate: input {number}: the program gives {others}, the model "
                             f"{names}")
        self._count += 1
        worst = None
        for name, expected in want:
            result = given[name]
            if expected.dtype != result.dtype or expected.shape != result.shape:
                raise ValueError(
                    f"tv.validate: input {number}: {name}: got {result.dtype} "
                    f"{[*result.shape]}, want {expected.dtype} {[*expected.shape]}")
            error = self._add_output(number, name, expected, result)
            if error and (worst is None or error["error"] > worst["error"]):
                worst = {"input": number, "output": name, **error}
        if worst:
            self._worst = sorted([*self._worst, worst], key=lambda w: -w["error"])[:_WORST]

    def _add_output(self, number, name, want, got) -> dict | None:
        """Of one output; the element that is farthest outside."""
        exact = not (want.is_floating_point() or want.is_complex())
        wide = torch.complex128 if want.is_complex() else torch.float64
        differs = got != want if exact else None
        expected, result, want, got = want, got, want.to(wide), got.to(wide)
        ratio = _ratios(want, got, self._rtol, self._atol) if differs is None else torch.where(
            differs, math.inf, 0.0).to(torch.float64)
        entry = self._outputs.setdefault(name, {"elements": 0, "outside": 0})
        entry["elements"] += want.numel()
        entry["outside"] += int((ratio > 1).sum())
        if not want.numel():
            return None
        for metric, function in self._functions.items():
            value = function(want, got)
            if value is not None:
                where = f"input {number}: {name}: metric {metric!r}"
                self._sums.setdefault((name, metric), []).append(_number(where, value))
        at = int(ratio.flatten().argmax())
        index, rest = [], at
        for size in reversed(want.shape):
            rest, place = divmod(rest, size)
            index.insert(0, place)
        return {"error": float(ratio.flatten()[at]), "index": index,
                "want": expected.flatten()[at].item(), "got": result.flatten()[at].item()}

    def validation(self) -> Validation:
        """All of it. Raises ValueError where there was no input, or no output."""
        if not self._count:
            raise ValueError("tv.validate: data has no inputs")
        if not self._outputs:
            raise ValueError("tv.validate: neither the model nor the program gives a result")
        for (name, metric), values in self._sums.items():
            low_is_bad = metric in _HIGH_IS_GOOD
            worst = min(values) if low_is_bad else max(
                values, key=lambda v: math.inf if math.isnan(v) else v)
            self._outputs[name][metric] = {"mean": sum(values) / len(values), "worst": worst}
        passed = all(entry["outside"] == 0 for entry in self._outputs.values())
        return Validation(passed, self._count, self._rtol, self._atol, self._outputs,
                          [w for w in self._worst if w["error"] > 0])


def _shown(value) -> str:
    return str(value) if isinstance(value, int) else f"{value:.8g}"


def _number(where: str, value) -> float:
    """What a metric gave; raises ValueError for what is no number."""
    try:
        if isinstance(value, str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        shown = f"a tensor of shape {[*value.shape]}" if isinstance(value, torch.Tensor) else (
            repr(value))
        raise ValueError(f"tv.validate: {where}: got {shown}, want a number, or None where it "
                         "does not apply") from None


def _differences(want, got) -> torch.Tensor:
    """|got - want|, 0 where both are the same infinity or NaN, inf where one alone is."""
    same = (want == got) | (want.isnan() & got.isnan())
    difference = torch.where(same, 0.0, (got - want).abs())
    return difference.nan_to_num(nan=math.inf, posinf=math.inf)


def _ratios(want, got, rtol, atol) -> torch.Tensor:
    """Of each element the difference by what is allowed."""
    difference = _differences(want, got)
    finite = want.abs().nan_to_num(nan=0.0, posinf=0.0)
    return torch.where(difference == 0, 0.0, difference / (atol + rtol * finite))


def _max_abs_error(want, got) -> float:
    return _differences(want, got).max().item()


def _mean_abs_error(want, got) -> float:
    return _differences(want, got).mean().item()


def _max_rel_error(want, got) -> float:
    return _ratios(want, got, 1.0, 0.0).max().item()


def _cosine(want, got) -> float | None:
    if want.is_complex() or not (want.isfinite().all() and got.isfinite().all()):
        return None
    a, b = want.flatten(), got.flatten()
    lengths = a.norm() * b.norm()
    if lengths == 0:
        return 1.0 if a.norm() == b.norm() else 0.0
    return min((a @ b / lengths).item(), 1.0)


def _top(k: int) -> Metric:
    def share(want, got) -> float | None:
        if want.is_complex() or want.dim() == 0 or want.shape[-1] <= k:
            return None
        rows = want.reshape(-1, want.shape[-1]), got.reshape(-1, want.shape[-1])
        first, second = (row.topk(k).indices for row in rows)
        return (first[:, :, None] == second[:, None, :]).any(2).double().mean().item()

    return share


_FUNCTIONS: dict[str, Metric] = {
    "max_abs_error": _max_abs_error, "mean_abs_error": _mean_abs_error,
    "max_rel_error": _max_rel_error, "cosine": _cosine, "top_1": _top(1), "top_5": _top(5)}


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, complex):
        return str(value)
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)
