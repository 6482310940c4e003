#!/usr/bin/env python
"""Writes docs/accuracy.md from the registry, the pointwise table and tests/accuracy:
`PYTHONPATH=python python scripts/accuracy_page.py`; with `--print` not to the page."""

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
# op_db has none of these.
LIBRARIES = ("quantized_decomposed::", "tensorrt::", "torchao::", "torch_vulkan::")

HEAD = """# Accuracy

The largest error of each operator in an engine. Written by `scripts/accuracy_page.py` from the
registry, the pointwise table (`csrc/codegen/pointwise_table.cpp`) and `tests/accuracy`, which tests
every line.

## By dtype

- **float32**: the tables below. A *ULP* is a unit in the last place of the exact result; "n of S",
  where S is something other than the result, means n units in the last place of the larger of S and
  the result. Infinities and NaN follow IEEE 754. The treatment of denormal numbers depends on the
  device: engines preserve them if its float controls allow that; other devices (NVIDIA's) treat
  them as 0 in arguments, comparisons and results. On every device the following are right for
  denormal arguments: copies, division, square roots, `log`, `log2`, `log10`, `erf`, `atan2`,
  `angle`, `frexp`, `nextafter` and `signbit`. Denormal results are outside of these promises.
  `torch.set_flush_denormal` changes nothing in engines.
- **float16, bfloat16**: stored as such, computed in float32 and rounded once, to nearest even. So
  the error is that of float32 plus half a unit in the last place of the 16-bit type. Fused
  operators keep float32 between them, where PyTorch rounds after each. Mantissas are shortened only
  if the settings allow it (`enabled_precisions`, `enable_autocast`). Where they make float16 of a
  float32 argument, weight or constant, what is finite and beyond its range becomes its largest
  number, ±65504, so that masks of float32's lowest number stay finite; infinities and NaN stay, and
  the model's own casts overflow as PyTorch's do.
- **int64, int32, int16, int8, uint8, bool**: exact. Integers wrap, and so do numbers that an
  operator takes beside a tensor of a narrower type. Shifts by a negative number, or by the width or
  more, give 0; to the right they give -1 for negative numbers.
- **float64**: runs natively, unless `truncate_long_and_double` computes it as float32.

### Zeros, infinities and NaN

Functions of one element give what PyTorch gives on the CPU, including the sign of a zero.
`tests/converters/test_special_values.py` names the exceptions: where `add` and `sub` with an
`alpha`, and `lerp`, round an intermediate result that PyTorch does not round, `igamma` and `zeta`
of the largest numbers, and polynomials of NaN. If PyTorch's own vectorised and scalar loops differ
in the sign of a zero, the sign is one of the two. A sum of negative zeros may be 0 or -0, and a
maximum or minimum of zeros may have the sign of any of them.

For other operators, a result is infinite or NaN where PyTorch's is. In Fourier transforms, resizing
with anti-aliasing, and layer and instance norms it may be another of the three, depending on the
order of sums and on factors of 0. Nothing is promised for

- positions (`grid_sample`) and degrees of polynomials that are infinite or NaN;
- `multilabel_margin_loss`, which PyTorch decomposes;
- `mode` of numbers of which some are NaN: PyTorch's order of them is undefined;
- the integers that infinities and NaN become in a conversion: PyTorch's differ between CPUs, too;
- the other part of a complex number of which one part is infinite, where a real number is added or
  multiplied: PyTorch makes a complex number of it, and NaN of infinity times its zero;
- what a Cholesky factorisation gives after a pivot that is not positive and finite;
- results of a convolution whose window reaches the padding, or of a transposed one between the
  strides, if a weight of their channel is infinite or NaN.

`polygamma(1, x)` is infinite at its poles, whole x below 0, where PyTorch's sin(πx) is not quite 0.
`gcd` of the smallest int8 or int16 (-128, -32768) and another number is positive, where PyTorch's
may be negative (-2 for -128 and 6); of the smallest and itself or 0 it wraps in both.

### Transformed convolutions

With `allow_transformed_convolutions=True` the tuner may take Winograd's F(2x2, 3x3) and
F(4x4, 3x3) for 3x3 convolutions of stride 1 (on CPU drivers). They add up numbers of a whole patch,
4x4 or 6x6 pixels, before they multiply, and an output's error then depends on the largest of them:
it is below 81 (2x2) or 36,100 (4x4) times (4 + 2 √n) · 2⁻²⁴ · Σ over the n input channels of the
patch's largest pixel times the largest weight of the window, both in size. Numbers of one size come
nowhere near it: errors are 2 and 20 times those of direct sums
([0012](design/0012-winograd.md) has measurements). An infinity or NaN may also make those
outputs of its patch NaN whose windows do not have it.

## Values that are refused

An index out of range (`gather`, `scatter`, `index`, `index_put`, `index_select`, `embedding`,
`embedding_bag`, `take`, `put`, the targets of `cross_entropy`, pivots, sorters, …) and an integer
division by 0 are errors, as in PyTorch. Kernels that read indices or divide integers detect them,
at the cost of one comparison for each index. The call that computed such a value then runs
natively, so that PyTorch raises its own exception; engines without a native form (`tv.compile`,
TorchScript, ONNX, C++, `vkexec`) raise `IndexError` or `RuntimeError` with the operator and its
source line. Calls on CUDA tensors do not wait, so there the next call of the engine on the same
stream raises. `check_indices=False` ([settings.md](settings.md)) leaves the comparisons out. Either
way no kernel reads or writes outside of its tensors. Not detected are: indices of `_unsafe_`
operators, `one_hot` of a class past the last (PyTorch turns it into comparisons), positions in
gradients of `max_pool`, rows in the gradient of `embedding`, and values that a graph does not
compute because nothing reads them.

Operators that are in no table are compared with PyTorch by torch's own op_db (docs/operators.md):
within torch.testing's defaults, or at most twice PyTorch's own error against float64.

## Determinism

The same engine gives the same bits for the same inputs at every call: reductions add in a fixed
order, and no kernel has float atomics (`tests/accuracy/test_determinism.py`). So engines satisfy
`torch.use_deterministic_algorithms(True)`. Another device, another driver or other tactics may
round differently; settings that fix the tactics (`optimization_level=0`, or a timing cache) fix the
bits on one device.
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
    of_libraries = [op for op in groups[""] if op.startswith(LIBRARIES)]
    others = {"By op_db alone": [op for op in groups[""] if op not in of_libraries],
              "By the results of the libraries that they are from": of_libraries}
    return "\n\n".join((text, *(f"{how}: {overloads(ops)}." for how, ops in others.items() if ops)))


def page() -> str:
    infos = [i for i in tv.supported_ops() if not i["op"].startswith("tv::")]
    pointwise = [i for i in infos if i["kind"] == "pointwise"]
    others = [i for i in infos if i["kind"] in ("kernel", "expand")]
    return "\n\n".join((HEAD.strip(), "## Functions of one element", functions(pointwise),
                        "## Families with kernels of their own", families(others),
                        "Views are exact: they are no computation.")) + "\n"


if __name__ == "__main__":
    write = sys.stdout.write if sys.argv[1:] == ["--print"] else PAGE.write_text
    write(page())
