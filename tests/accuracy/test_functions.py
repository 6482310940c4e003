"""Pointwise functions keep the errors that the table states, on whatever device this runs."""

import pytest
import torch
from function_cases import FUNCTIONS, arguments, errors

from torch_vulkan import _C

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


@pytest.mark.parametrize("rows", GROUPS, ids=lambda rows: rows[0])
def test_stated_errors(device, rows):
    given, function = compiled_together(rows)
    for row, args, result in zip(rows, given, function(*given), strict=True):
        case, doubles = FUNCTIONS[row], [a.double() for a in args]
        exact = case.function(*doubles)
        error = errors(result, exact, case.scale(*doubles) if case.scale else None)
        worst = error.nan_to_num(torch.inf).argmax()
        assert error[worst] <= stated(row), (
            f"{row}: {error[worst]:.2f} ULP at {[a.flatten()[worst].item() for a in args]}")
        assert torch.equal(result.isnan(), exact.isnan()), row


PLAIN = [row for row, case in FUNCTIONS.items() if case.scale is None and len(case.domains) == 1
         and row not in ("linspace", "round_decimals")]


@pytest.mark.parametrize("dtype,rows", [(torch.float16, PLAIN[::2]), (torch.bfloat16, PLAIN[1::2])],
                         ids=str)
def test_16_bit_results_are_rounded_once(device, dtype, rows):
    """float32 arithmetic, rounded to nearest in the end: little more than half a unit."""
    given, function = compiled_together(rows)
    given = [[a.to(dtype) for a in args] for args in given]
    info = torch.finfo(dtype)
    for row, args, result in zip(rows, given, function(*given), strict=True):
        exact = FUNCTIONS[row].function(*[a.double() for a in args])
        size = exact.abs()
        _, exponent = torch.frexp(size.clamp(min=info.tiny))
        unit = torch.ldexp(torch.ones_like(size), exponent) * info.eps / 2
        error = (result.double() - exact).abs() / unit
        error = torch.where(exact.isfinite() & (size <= info.max) & (size >= info.tiny), error, 0.0)
        assert result.dtype == dtype
        assert error.max() <= 0.5 + stated(row) * 2.0**-24 / (info.eps / 2), row


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
