"""Operators with kernels of their own keep what family_cases.py promises, on every device."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from family_cases import FAMILIES

from marks import turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True}
CHECKS = [pytest.param(check, length, id=f"{family.title}-{k}-{length}") for family in FAMILIES
          for k, check in enumerate(family.checks) for length in check.lengths]


def leaves(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def run(check, args):
    function = torch.compile(check.function, backend="vulkan", fullgraph=True, dynamic=False,
                             options=OPTIONS)
    return leaves(function(*args))


def excess(result, exact, bound):
    """By how much an error passes its bound: 0 for the same value, NaN where one alone is NaN."""
    result = result.double()
    same = (result == exact) | (result.isnan() & exact.isnan())
    return torch.where(same, 0.0, (result - exact).abs() / bound)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, 1.001])
def test_a_wrong_element_passes_the_bound(wrong):
    exact = torch.ones(5, dtype=torch.float64)
    result = exact.float()
    result[3] = wrong
    bound = torch.full_like(exact, 1e-6)
    assert excess(exact.float(), exact, bound).max() == 0
    assert not excess(result, exact, bound).max() <= 1
    assert not excess(exact, result.double(), bound).max() <= 1


@pytest.mark.parametrize("check,length", CHECKS)
def test_promises(device, check, length):
    args = check.make(length)
    doubles = [a.double() for a in args]
    expected = leaves(check.function(*args if check.bound is None else doubles))
    for result, exact in zip(run(check, args), expected, strict=True):
        if check.bound is None:
            assert torch.equal(result, exact)
            continue
        bound = check.bound(exact, *doubles)
        most = excess(result, exact, bound).max()
        assert most <= 1, f"{most:.2f} of what is promised"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", [f for f in FAMILIES if f.checks[0].bound],
                         ids=lambda f: f.title)
def test_16_bit_results_are_rounded_once(device, family, dtype):
    """What is promised for float32, and half a unit of the 16-bit type."""
    check = family.checks[0]
    args = [a.to(dtype) for a in check.make(check.lengths[0])]
    doubles = [a.double() for a in args]
    for result, exact in zip(run(check, args), leaves(check.function(*doubles)), strict=True):
        half = torch.finfo(dtype).eps / 2 * exact.abs().clamp(min=torch.finfo(dtype).tiny)
        bound = check.bound(exact, *doubles) + 1.001 * half
        if family.half:
            bound = bound + family.half(torch.finfo(dtype).eps, *doubles)
        assert result.dtype == dtype
        assert ((result.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("check,length", [c for c in CHECKS if c.values[0].bound])
def test_bounds_are_met_by_no_wrong_result(check, length):
    """A result that is off by 1e-4 of its size breaks every promise."""
    doubles = [a.double() for a in check.make(length)]
    for exact in leaves(check.function(*doubles)):
        assert (1e-4 * exact.abs() > check.bound(exact, *doubles)).any()


@turns(1)
def test_the_page_says_what_is_held():
    """`scripts/accuracy_page.py` writes it, here in a process of its own: other tests register
    operators."""
    root = Path(__file__).parents[2]
    written = subprocess.run([sys.executable, root / "scripts" / "accuracy_page.py", "--print"],
                             text=True, capture_output=True, check=True).stdout
    assert (root / "docs" / "accuracy.md").read_text() == written, "run scripts/accuracy_page.py"
