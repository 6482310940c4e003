"""Judges one case: is what the backend gives eager's, torch's own difference, or wrong?"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import promised_strides
import torch
import torch._dynamo.guards
from program_case import Case, load
from program_worlds import Difference, differences, run_world

from denormals import flushes_denormals

_PERTURBED = (1000, 2000, 3000)


@dataclass
class Verdict:
    """What became of a case.

    Attributes:
        wrong: what differs from eager, and not by roundings, and not with PyTorch's own backends.
        torchs: how much of what differs is the same with one of those.
        rounding: how many values differ as eager's do with other roundings.
        native: how many graphs and engines said that they run natively, for a good reason.
        calls: compared calls.
    """

    wrong: list[Difference] = field(default_factory=list)
    torchs: int = 0
    rounding: int = 0
    native: int = 0
    calls: int = 0
    refused: bool = False  # eager raised in the first call

    def kinds(self) -> frozenset[str]:
        return frozenset(d.kind for d in self.wrong)


# PyTorch's own: what its defaults lose, what Dynamo alone does (gradients of a view behind
# `x.data = …`), and what AOTAutograd does where it recomputes nothing in the backward graph
# (results that are kept for it and changed by the program); strides that it promises.
PYTORCHS = ("aot_eager", "eager", "aot_eager_default_partitioner", promised_strides.NAME)
ALIASING = frozenset({"storage", "bytes", "offset", "is", "written"})
# What other roundings may change; of shapes that of unique, of a mask's elements.
ROUNDED = frozenset({"values", "later", "written", "shape", "results"})
# What PyTorch has no kernel for, of a type that the operator is defined for, may be computed.
_NO_KERNEL = re.compile(r"^none .* for NotImplementedError \(\"\w+\" not implemented for '\w+'")


# Why PyTorch runs a graph, or an engine's call, of a program (docs/design/0016).
_GOOD_REASON = re.compile("|".join((
    r"as_strided (of an argument that is written and does not begin|reads beside|writes beside)",
    r"(an argument|a view) that is written has, or may have, elements that overlap",
    r"a result is a view with elements of another type, conjugated or negated, whose size varies",
    r"x\.data = … or set_ gives a tensor another's memory",
    r"PyTorch cannot check the size of what an argument is a view of",
    r"engine_\d+ runs natively: \[check_indices\]",
    r"a number is -?\d+ here, which does not fit (u?int|float)",
    # PyTorch gives a mask of the input's type where that has no elements.
    r"dtype of input '(native_dropout\.1|getitem_\d+)'; got [A-Z]\w+, want bool",
    r"arguments that are written to share memory otherwise than when",
    r"result \d+ is a view (of argument \d+ )?that cannot be traced back to",
    # Dynamo does likewise with any backend that raises these.
    r"AOTAutograd failed: (DataDependentOutput|DynamicOutputShape)Exception")))
# It is a good one if PyTorch's own backend, which hands AOTAutograd the same graph, fails, too.
_AOTS_REASON = "PyTorch's AOTAutograd failed"


def check(text: str, without: frozenset[str] = frozenset()) -> Verdict:
    """Runs a case's file as eager and compiled; `without`: kinds of differences that count not."""
    case = load(text)
    expected, _ = run_world(case, None)
    actual, told = run_world(case, "vulkan")
    verdict = Verdict(calls=sum(not r.error for r in expected), refused=bool(expected[0].error))
    native = [t for t in told if "runs natively" in t and "was not built" not in t]
    verdict.native = len(native)
    found = [d for d in differences(expected, actual) if d.kind not in without]
    found = [d for d in found if d.kind != "error" or not _NO_KERNEL.search(d.how)]
    if found:
        found = _without(found, differences(expected, run_world(case, None)[0]))
    for backend in PYTORCHS if found else ():
        torchs = _without(found, differences(expected, run_world(case, backend)[0]))
        verdict.torchs += len(found) - len(torchs)
        found = torchs
    if ".view(torch." in text and flushes_denormals():  # whose numbers are denormal ones, mostly
        verdict.rounding = sum(d.kind in ROUNDED for d in found)
        found = [d for d in found if d.kind not in ROUNDED]
    if any(d.kind in ROUNDED for d in found):
        moved = [d for seed in _PERTURBED
                 for d in differences(expected, run_world(case, None, seed)[0])]
        verdict.rounding += len(found) - len(_without(found, moved))
        found = _without(found, moved)
    unbuilt = [t for t in told if "was not built" in t or "a bug in torch_vulkan" in t]
    if "build" not in without:
        found += [Difference("build", 0, "an engine", t) for t in unbuilt[:1]]
    if "native" not in without:
        found += [Difference("native", 0, "a graph", t) for t in _without_reason(native, case)][:1]
    verdict.wrong = found
    return verdict


def _without_reason(native: list[str], case: Case) -> list[str]:
    """Those of the warnings that say no good reason."""
    others = [t for t in native if not _GOOD_REASON.search(t)]
    aots = [t for t in others if _AOTS_REASON in t]
    if aots and any(r.error for r in run_world(case, "aot_eager")[0]):
        others = [t for t in others if t not in aots]
    return others


def _without(found: list[Difference], others: list[Difference]) -> list[Difference]:
    """A call that another world does not make at all says nothing of that call's tensors."""
    ended = min((d.call for d in others if d.kind in ("error", "results")), default=99)
    others = set(others)
    return [d for d in found if d not in others and d.call < ended or (
        d.call == ended and d.kind == "error" and d not in others)]


def shrink(case: Case, seconds: float, judge: Callable[[str], Verdict] = check) -> Case:
    """A smaller case that is wrong in a way that `case` is."""
    kinds = judge(case.text()).kinds()
    end, smaller = time.monotonic() + seconds, True
    while smaller:
        smaller = False
        for candidate in case.smaller():
            if time.monotonic() > end:
                return case
            if _fails(candidate, kinds, judge):
                case, smaller = candidate, True
                break
    return case


def _fails(case: Case, kinds: frozenset[str], judge) -> bool:
    try:
        verdict = judge(case.text())
    except Exception:  # noqa: BLE001  a case that is none: its inputs cannot be made
        return False
    return not verdict.refused and bool(verdict.kinds() & kinds)


def quiet() -> None:
    """Sets up a process that checks cases: one thread, no log, and no timing of guards, for which
    Dynamo empties the CPU's caches."""
    torch.set_num_threads(1)
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    for name in ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
