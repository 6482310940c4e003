"""Pointwise functions keep the errors that the table states, on whatever device this runs."""

import pytest
import torch
from function_cases import FUNCTIONS, arguments, errors, errors_of_16_bits, least_error

from torch_vulkan import _C

from denormals import flushes_denormals
from marks import slow_but, turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0}
GROUPS = [list(FUNCTIONS)[k::12] for k in range(12)]


def stated(row: str) -> float:
    return float(_C.pointwise_errors()[row].split(" of ")[0])


def compiled_together(rows):
    """The results of several rows by one engine."""
    given = [arguments(FUNCTIONS[row]) for row in rows]
    function = torch.compile(lambda *a: [FUNCTIONS[r].function(*x)
                                         for r, x in zip(rows, a, strict=True)],
                             backend="vulkan", fullgraph=True, options=OPTIONS)
    return given, function


@pytest.fixture(scope="module")
def flushes(device):
    return flushes_denormals()


@turns(2)
@pytest.mark.parametrize("rows", GROUPS, ids="-".join)
def test_stated_errors(flushes, rows):
    given, function = compiled_together(rows)
    for row, args, result in zip(rows, given, function(*given), strict=True):
        case = FUNCTIONS[row]
        error = least_error(row, args, flushes, lambda exact, doubles, case=case, result=result: (
            errors(result, exact, case.scale(*doubles) if case.scale else None)))
        worst = error.argmax()
        print(f"{row}: {error[worst]:.2f} of {stated(row):g}")
        assert error[worst] <= stated(row), (
            f"{row}: {error[worst]:.2f} ULP at {[a.flatten()[worst].item() for a in args]}")
        exact = case.function(*[a.double() for a in args])
        assert torch.equal(result.isnan(), exact.isnan()), row


def quarters(case):
    """Numbers of few bits: -8 to 8 by quarters, or all pairs and triples of some of them."""
    if len(case.domains) == 1:
        return [torch.arange(-32, 33) / 4]
    some = torch.tensor([-4, -3, -1.5, -1, -0.5, 0, 0.25, 0.5, 1, 2, 2.5, 8])
    return list(torch.cartesian_prod(*[some] * len(case.domains)).unbind(1))


@turns(3)
@pytest.mark.parametrize("rows", GROUPS, ids="-".join)
def test_results_of_few_bits_are_exact(device, rows):
    """What follows may jump there: an order of i0(0), a floor of exp(0)."""
    cases = [FUNCTIONS[row] for row in rows if row != "linspace"]  # of the count, not of a value
    given = [[a.contiguous() for a in quarters(case)] for case in cases]
    function = torch.compile(lambda *a: [case.function(*x)
                                         for case, x in zip(cases, a, strict=True)],
                             backend="vulkan", fullgraph=True, options=OPTIONS)
    found = 0
    for case, args, result in zip(cases, given, function(*given), strict=True):
        exact = case.function(*[a.double() for a in args]).float()
        few = (exact * 256 == (exact * 256).round()) & (exact.abs() <= 256)
        few &= (exact != 0) | (result == 0) | (result.abs() > 1e-9)  # tails that float64 has as 0
        right = (result == exact) | (result == case.function(*args))  # or as eager is off
        assert right[few].all(), case
        found += int(few.sum())
    assert found > 100


PLAIN = [row for row, case in FUNCTIONS.items() if case.scale is None and len(case.domains) == 1
         and row not in ("linspace", "round_decimals")]
THIRDS = [(dtype, PLAIN[k::3]) for dtype in (torch.float16, torch.bfloat16) for k in range(3)]


@turns(2)
@pytest.mark.parametrize("dtype,rows", slow_but(
    [THIRDS[0], THIRDS[4]], THIRDS, rows=True), ids=str)
def test_16_bit_results_are_rounded_once(flushes, dtype, rows):
    """float32 arithmetic, rounded to nearest in the end: little more than half a unit."""
    given, function = compiled_together(rows)
    given = [[a.to(dtype) for a in args] for args in given]
    for row, args, result in zip(rows, given, function(*given), strict=True):
        error = least_error(row, args, flushes,
                            lambda exact, _, result=result: errors_of_16_bits(result, exact))
        assert result.dtype == dtype
        assert error.max() <= 0.5 + stated(row) * 2.0**-24 / (torch.finfo(dtype).eps / 2), row


def test_denormals_are_told_from_errors():
    """What a flushing device may give for 1.5 · 2⁻¹²⁷ and 2⁻¹²⁷ by 1.5, and what none may."""
    args = [torch.tensor([1.5 * 2.0**-127, 2.0**-127])]
    exact, flushed, wrong = (torch.tensor(r) for r in (
        [1.125 * 2.0**-126, 0.75 * 2.0**-126], [0.0, 0.0], [4.0 * 2.0**-126, 3.0 * 2.0**-126]))
    def found(result, flushes, row="mask_scale"):
        return least_error(row, args, flushes, lambda e, _: errors(result, e)).max()
    assert found(exact, False) == 0 == found(exact, True) == found(flushed, True)
    assert found(flushed, False) > 1e6 and found(wrong, True) > 1e6
    assert found(torch.tensor([0.0, 0.0]), True, "sqrt") > 1e6


def test_every_row_with_an_error_is_measured():
    # An r in front: the same formula with its operands exchanged.
    missing = [row for row, error in _C.pointwise_errors().items() if error != "exact"
               and row not in FUNCTIONS and row.removeprefix("r") not in FUNCTIONS]
    assert not missing, f"{missing}: say in function_cases.py how they are called"


def test_operators_name_their_rows():
    import torch_vulkan as tv

    rows = {info["op"]: info["function"] for info in tv.supported_ops() if "function" in info}
    assert rows["aten::exp"] == "exp" and rows["aten::special_i0e"] == "i0e"
    assert set(filter(None, rows.values())) <= set(_C.pointwise_errors())
