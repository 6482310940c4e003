#!/usr/bin/env python
"""Writes docs/accuracy.md from the registry, the pointwise table and tests/accuracy:
`PYTHONPATH=python python scripts/accuracy_page.py`."""

import collections
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "accuracy"))

from family_cases import FAMILIES, family_of  # noqa: E402
from function_cases import FUNCTIONS, RANGES  # noqa: E402

import torch_vulkan as tv  # noqa: E402
from torch_vulkan import _C  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"

HEAD = """# Accuracy

What engines promise, by operator. Written by `scripts/accuracy_page.py` from the registry, the
pointwise table (`csrc/codegen/pointwise_table.cpp`) and `tests/accuracy`, which holds every line
on the device that it runs on.

## By dtype

- **float32**: the tables below. A *ULP* is a unit in the last place of the exact result; "n of S",
  where S is something other than the result, is n units in the last place of the larger of S and
  the result. Infinities and NaN follow IEEE 754. Denormal numbers are as the device has them:
  engines ask for them to be kept where its float controls offer that, and others (NVIDIA's) take
  them for 0, in arguments, comparisons and results. Right for denormal arguments on every device
  are copies, division, square roots, `log`, `log2`, `log10`, `erf`, `atan2`, `angle`, `frexp`,
  `nextafter` and `signbit`; denormal results are outside of these promises.
- **float16, bfloat16**: stored so, computed in float32 and rounded once, to nearest even: what the
  tables say of float32, and half a unit in the last place of the 16-bit type. Operators that are
  fused keep float32 between them, where PyTorch rounds after each. Mantissas are shortened only
  where the settings allow it (`enabled_precisions`).
- **int64, int32, int16, int8, uint8, bool**: exact; integers wrap, and so do numbers that an
  operator takes beside a tensor of a narrower type. Shifts by less than 0 or by the width and more
  give 0, and to the right -1 for what is negative.
- **float64**: runs natively, unless `truncate_long_and_double` computes it as float32.

Zeros, infinities and NaN: of functions of one element, results are what PyTorch's on the CPU are,
with the sign of a zero (`tests/converters/test_special_values.py`, which names the exceptions: what
`add` and `sub` with an `alpha`, or `lerp`, round and PyTorch does not, `igamma` and `zeta` of the
largest numbers, polynomials of NaN). Where PyTorch's own loops over vectors and over single
elements differ in the sign of a zero, it is one of the two. Sums of negative zeros may be 0 or -0,
and the sign of a largest or smallest value that is 0 is that of any of the equal ones. Of other
operators, results are no finite numbers where PyTorch's are none; which of the three they are
follows, in Fourier transforms, resizing with anti-aliasing, and norms of layers and instances, from
the order of sums and from factors of 0. Nothing is promised of positions (`grid_sample`) and
polynomials' degrees that are no numbers, of `multilabel_margin_loss`, which PyTorch decomposes, of
what a Cholesky factorisation leaves behind a pivot that is not positive and finite, and of a
convolution's results whose window reaches the padding, or, transposed, the places between the
strides, where a weight of their channel is infinite or NaN.
`polygamma(1, x)` is infinite at whole x below 0, its poles, where PyTorch's sin(πx) is not quite 0.
`gcd` of the least int8 or int16 (-128, -32768) and another number is positive, as divisors are,
where PyTorch's may be negative (-2 of -128 and 6), as its absolute value is -128 in int8; of the
least and itself or 0 it wraps in both.

## Values that are refused

An index that names nothing (`gather`, `scatter`, `index`, `index_put`, `index_select`, `embedding`,
`embedding_bag`, `take`, `put`, the targets of `cross_entropy`, pivots, sorters, …) and an integer
that is divided by 0 are errors, as in PyTorch. Kernels that read indices or divide integers note it
(a comparison an index; a word in memory is written only where one is bad), and the call that
computed it then runs natively, so that PyTorch raises its own exception; engines without a native
form (`tv.compile`, TorchScript, ONNX, C++, `vkexec`) raise `IndexError` or `RuntimeError` with the
operator and its line. On CUDA tensors, whose calls do not wait, the next call of the engine on the
same stream raises it. `check_indices=False` ([settings.md](settings.md)) leaves the comparisons
out. Either way no kernel reads or writes outside of its tensors. Not noticed are: indices of
operators that are `_unsafe_`, `one_hot` of a class past the last (PyTorch makes comparisons of it),
places of `max_pool` gradients, rows in the gradient of `embedding`, and whatever a graph does not
compute because nobody reads it.

What is in no table is compared with PyTorch by torch's own op_db (docs/operators.md):
torch.testing's defaults, or at most twice PyTorch's own error against float64.

## The same bits

The same engine gives the same bits for the same inputs, at every call: reductions add in a fixed
order, and no kernel has float atomics (`tests/accuracy/test_determinism.py`). So
`torch.use_deterministic_algorithms(True)` changes nothing and refuses nothing in an engine. Another
device, another driver or other tactics of the tuner may round otherwise; settings that keep tactics
fixed (`optimization_level=0`, or a timing cache) keep the bits of one device.
"""


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    cells = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)])


def overloads(ops: list[str]) -> str:
    """Each operator once, whatever its overloads."""
    return ", ".join(f"`{name}`" for name in sorted({op.split("::")[1].split(".")[0]
                                                    for op in ops}))


def promise(row: str) -> tuple[str, str]:
    """What is said of a row of the pointwise table, and where."""
    error = _C.pointwise_errors()[row]
    unit = error if " of " in error else f"{error} ULP"
    return unit, "; ".join(RANGES[d] for d in FUNCTIONS[row].domains)


def functions(infos: list[dict]) -> str:
    errors = _C.pointwise_errors()
    ops = collections.defaultdict(list)
    for info in infos:
        ops[info["function"]].append(info["op"])
    chosen = {op.split("::")[1].split(".")[0] for op in ops[""]}
    rows, exact = [], []
    for row, error in errors.items():
        if error == "exact":
            exact += ops[row]
        elif row in FUNCTIONS:
            turned = ops["r" + row] if errors.get("r" + row) == error else []
            names = overloads([*ops[row], *turned]) or (f"`{row}`" if row in chosen else f"({row})")
            rows.append((names, *promise(row)))
    return "\n\n".join((
        "In parentheses: a form that arguments choose (`alpha`, a constant exponent, `eps`, "
        "`approximate`).",
        table(("operator", "largest error", "arguments that the tests take"), rows),
        f"Exact, whatever the arguments: {overloads(exact)}."))


def families(infos: list[dict]) -> str:
    groups = collections.defaultdict(list)
    for info in infos:
        family = family_of(info["op"])
        groups[family.title if family else ""].append(info["op"])
    rows = [(f.title, f.promise, overloads(groups[f.title])) for f in FAMILIES]
    text = table(("family", "largest error of a float32 result", "operators"), rows)
    others = f"\n\nBy op_db alone: {overloads(groups[''])}." if groups[""] else ""
    return text + others


def page() -> str:
    infos = [i for i in tv.supported_ops() if not i["op"].startswith("tv::")]
    pointwise = [i for i in infos if i["kind"] == "pointwise"]
    others = [i for i in infos if i["kind"] in ("kernel", "expand")]
    return "\n\n".join((HEAD.strip(), "## Functions of one element", functions(pointwise),
                        "## Families with kernels of their own", families(others),
                        "Views are exact: they are no computation.")) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
