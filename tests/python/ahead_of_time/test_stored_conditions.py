"""Conditions in the forms that captures have: a file's engine refuses the sizes that Python's own
evaluation of them does, and runs all others."""

import itertools
import re

import pytest
import torch
from torch.utils import _pytree as pytree

import torch_vulkan as tv
from torch_vulkan._aot.conditions import Conditions
from torch_vulkan._base.stored_conditions import stored
from torch_vulkan._torch import compat

from aot_helpers import compiled, rows

SIZES = (2, 3, 5, 6, 7, 8, 9)

# Of a, the rows of x, and b, those of y.
HELD = [
    "a < b", "a <= b", "a > b", "a >= 2 * b - 3", "a != b", "a == b", "3 < a",
    "2 < a <= 8", "a < b < 9", "9 > a >= b > 2", "3 <= a < b <= 8", "2 == 2 < a",
    "a < b and b < 8", "a != b and a % 2 == 0 and 3 <= b <= 8", "(a > 2 and b > 2) and a < 9",
    "max(a, b) <= 6", "min(a, b) >= 3", "max(a - 3, b // 2) == 3", "min(a, b, 7) > 2",
    "max(3, a, b, 1) != 6", "a ** 2 > 9 * b", "2 ** 3 >= a ** 1", "12 % a == 0",
    "max(a, min(b, 5)) < 6", "min(2 * a, b + 4) != 10", "max(2, a) > min(b, 5)",
    "a // 2 == b // 2", "a // 4 < 2", "(3 * a + b) // 5 >= 3", "-a // 2 < -2", "7 // a == 1",
    "a * 12 // b >= 20", "a % b == 0", "a % 3 == 1", "a % 4 < 2", "(a + b) % 4 == 0",
    "-a + b > 0", "-(a * b) % 3 == 2", "a // b == 1 and a % b < 3",
]
# What a file has no words for.
LOST = ["a < 3 or b < 3", "not a == b", "a / 2 == 3", "a ** b > 99", "max(a, b) / 2 > 1",
        "a < b and (a < 3 or b < 3)", "a if b > 2 else 3",
        f"a < {10**30}", f"3 ** 8 * a < {2**63}", "(1000 * a) ** 8 > 9"]


class Two(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + 1, torch.relu(y) * 2


@pytest.fixture(scope="module")
def engine(device):
    (engine,) = tv.engines(compiled(Two(), [rows(2, 4, 16, 3), rows(2, 6, 16, 3)]))
    return engine


@pytest.fixture
def give_conditions(monkeypatch):
    """Gives an engine a condition, as if its capture had found it."""
    spec = pytree.tree_structure(((0, 0), {}))

    def give(engine, text):
        for name, argument in (("a", "x"), ("b", "y")):
            text = re.sub(rf"\b{name}\b", f"L['{argument}'].size()[0]", text)
        monkeypatch.setattr(compat, "guards_of", lambda program: [text])
        conditions = Conditions(None, ["x", "y"], spec, ["x", "y"])
        monkeypatch.setattr(engine, "_conditions", conditions)
        return conditions
    return give


@pytest.fixture
def conditioned(engine, give_conditions):
    return lambda text: (engine, give_conditions(engine, text))


def holds(text, a, b):
    return bool(eval(text, {"a": a, "b": b, "max": max, "min": min}))


def runs(function, a, b):
    """Whether sizes are taken; what refuses them is a ValueError that names one of them."""
    x, y = torch.ones(a, 3), torch.ones(b, 3)
    try:
        function(x, y)
    except ValueError as error:
        assert str(a) in str(error) or str(b) in str(error)
        return False
    return True


@pytest.mark.parametrize("text", HELD)
def test_a_file_holds(text, conditioned, tmp_path):
    engine, conditions = conditioned(text)
    engine.save(tmp_path / "net.vke")
    loaded = tv.Engine.load(tmp_path / "net.vke")
    verdicts = set()
    for a, b in itertools.product(SIZES, SIZES):
        wanted = holds(text, a, b)
        verdicts.add(wanted)
        assert runs(lambda *given: loaded.run(list(given)), a, b) == wanted, (a, b)
        assert runs(lambda *given: conditions.check(list(given)), a, b) == wanted, (a, b)
    assert len(verdicts) == 2, "sizes that are taken, and others"


@pytest.mark.parametrize("text", LOST)
def test_a_file_cannot_hold(text, conditioned, tmp_path):
    """It is saved with a warning; the engine in memory checks it all the same."""
    engine, _ = conditioned(text)
    with pytest.warns(UserWarning, match="does not hold that its sizes have to fulfil"):
        engine.save(tmp_path / "net.vke")
    for a, b in itertools.product(SIZES[:4], SIZES[:4]):
        assert runs(lambda *given: engine.run(list(given)), a, b) == holds(text, a, b), (a, b)


@pytest.mark.parametrize(("text", "kept"), [
    ("a ** 4 > 100", False), ("a ** 3 > 100", True), ("a ** 3 % 3 == 0", True),
    ("a ** 4 % 3 == 0", False), ("a ** 3 * b ** 3 > 100", False), ("a ** 2 * b > 100", True),
    ("a ** 8 * 0 == 0", False), ("2 ** 3 < a", True)])
def test_powers_that_pass_64_bits(text, kept, device, give_conditions):
    """Python says what is true of 60,000 to the fourth; a file would refuse it as what it cannot
    compute, so it does not hold that."""
    (engine,) = tv.engines(compiled(Two(), [rows(2, 4, 60000, 3), rows(2, 6, 60000, 3)]))
    info = engine._parts[0].info()
    made, lost = stored(give_conditions(engine, text), info["inputs"], info["symbols"])
    assert (len(made), len(lost)) == ((1, 0) if kept else (0, 1))


def test_a_size_that_a_power_takes_past_64_bits(device, give_conditions, tmp_path):
    (engine,) = tv.engines(compiled(Two(), [rows(2, 4, 60000, 3), rows(2, 6, 16, 3)]))
    give_conditions(engine, "a ** 4 > 100")
    with pytest.warns(UserWarning, match=r"have to fulfil x.shape\[0\] \*\* 4 > 100"):
        engine.save(tmp_path / "net.vke")
    x, y = torch.randn(60000, 3), torch.randn(2, 3)
    for each in (engine, tv.Engine.load(tmp_path / "net.vke")):
        for got, wanted in zip(each.run([x, y]).values(), Two()(x, y), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_results_of_what_is_taken(conditioned, tmp_path):
    engine, _ = conditioned("a < b <= 8")
    engine.save(tmp_path / "net.vke")
    x, y = torch.randn(5, 3), torch.randn(7, 3)
    loaded = tv.Engine.load(tmp_path / "net.vke")
    for got, wanted in zip(loaded.run([x, y]).values(), Two()(x, y), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"compiled for .*x.shape\[0\] < y.shape\[0\] <= 8"):
        loaded.run([y, x])
