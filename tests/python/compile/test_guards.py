"""What guards say of sizes, without a capture."""

from types import SimpleNamespace

import pytest
import sympy
from torch.utils._sympy import functions as sf
from torch.utils._sympy.value_ranges import ValueRanges

from torch_vulkan._torch.guards import Guards

a, b, c, d = sympy.symbols("s0 s1 s2 s3", integer=True, positive=True)
EQUAL = {
    "both at least": [a >= b, b >= a],
    "both at most": [b <= a, a <= b],
    "the smaller of both": [sympy.Eq(a, sf.Min(a, b)), sympy.Eq(sf.Min(a, b), b)],
    "the larger and the smaller": [sympy.Eq(sf.Max(a, b), a), sympy.Eq(sf.Min(a, b), a)],
}


def guards(*relations, ranges=None, shown=()):
    """Those of an environment that has captured sizes of 11."""
    bounds = {symbol: ValueRanges(2, 1000) for symbol in (a, b, c, d)} | {
        symbol: ValueRanges(*pair) for symbol, pair in (ranges or {}).items()}
    return Guards(SimpleNamespace(
        guards=[SimpleNamespace(expr=r, size_oblivious=False) for r in relations],
        var_to_range=bounds, var_to_val=dict.fromkeys(bounds, 11),
        _maybe_evaluate_static=lambda relation: None), frozenset(shown))


@pytest.mark.parametrize("equal", EQUAL.values(), ids=EQUAL)
def test_equal_symbols_are_one(equal):
    found = guards(*equal)
    assert found.canonical(a) == found.canonical(b) == a
    assert found.canonical(sf.Min(a, b)) == found.canonical(sf.Max(a, b)) == a


@pytest.mark.parametrize("equal", EQUAL.values(), ids=EQUAL)
def test_what_is_said_of_either_holds_for_the_one(equal):
    odd = sympy.Eq(sf.PythonMod(b, 2), 1)
    found = guards(*equal, odd, ranges={b: (10, 11)})
    assert found.canonical(a) == found.canonical(b) == 11
    assert guards(*equal, ranges={b: (10, 12)}).narrowed(a, 2, 1000) == (10, 12)
    assert guards(*equal, b <= 20).narrowed(a, 2, 1000) == (2, 20)


@pytest.mark.parametrize("equal", EQUAL.values(), ids=EQUAL)
def test_what_follows_from_a_name_for_two(equal):
    """Whichever is said first."""
    half = sympy.Eq(sf.FloorDiv(b + 1, 2), sf.FloorDiv(b, 2))
    for found in (guards(half, *equal), guards(*equal, half)):
        for n in (a, b):
            assert found.canonical(sf.FloorDiv(n + 1, 2)) == sf.FloorDiv(a, 2)
    product = [a * b >= c, c >= a * b]
    for found in (guards(*product, *equal), guards(*equal, *product)):
        assert found.canonical(a * a) == found.canonical(b * b) == found.canonical(c)
    found = guards(sympy.Eq(c, b), a >= c, b >= a)
    assert found.canonical(a) == found.canonical(b) == found.canonical(c) == a


def test_the_name_that_inputs_show_is_used():
    assert guards(a >= b, b >= a, shown=[b]).canonical(a) == b
    assert guards(sympy.Eq(a, b), shown=[b, c]).canonical(a + c) == b + c


def test_an_order_alone_makes_nothing_equal():
    found = guards(a >= b, b >= c, sympy.Eq(sf.Min(a, d), d))
    assert [found.canonical(n) for n in (a, b, c, d)] == [a, b, c, d]
