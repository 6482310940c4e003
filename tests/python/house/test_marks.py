"""Cases that take turns in `make test` (tests/marks.py)."""

import ast
from pathlib import Path

import pytest

from marks import FOLDERS, take_turns
from seeds import whose_turn

TESTS = Path(__file__).parents[2]
CASES = [{"dtype": dtype, "size": size} for dtype in range(3) for size in range(4)]


@pytest.mark.parametrize("each", [(), ("dtype",), ("dtype", "size"), ("another",)])
@pytest.mark.parametrize("shares", [1, 2, 3, 4, 5, 12, 20])
def test_each_case_has_its_turn_and_each_value_is_in_every_run(shares, each):
    seen = set()
    for seed in range(1000003, 1000003 + shares):
        taken = whose_turn(CASES, shares, each, seed)
        assert len(taken) <= -(-len(CASES) // shares) + sum(
            len({case.get(name) for case in CASES}) for name in each)
        for name in set(each) & {"dtype", "size"}:
            assert {CASES[place][name] for place in taken} == {case[name] for case in CASES}
        seen |= taken
    assert seen == set(range(len(CASES)))
    assert whose_turn([], shares, each) == set()


PROGRAM = """
import pytest
from marks import turns

@turns(3)
@pytest.mark.parametrize("n", range(7))
def test_cases(n): pass

@turns(4)
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_case_stays(n): pass

@turns(2, group="of two")
def test_first(): pass

@turns(2, group="of two")
def test_second(): pass

@turns(4, each=("b",))
@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b", range(2))
def test_values(a, b): pass
"""


@pytest.fixture
def collected(tmp_path):
    """Names of the tests that a run with this seed and choice of -m has."""
    class Names:
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(self, items):
            take_turns(items, self.seed)

        def pytest_collection_finish(self, session):
            self.names = [item.name for item in session.items]

    (tmp_path / "test_program.py").write_text(PROGRAM)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow: \n  turns: \n")

    def names(seed, choice):
        plugin = Names()
        plugin.seed = seed
        # no:unraisableexception, which would collect this process's garbage five times for each.
        assert not pytest.main(["-qq", "--co", "-p", "no:cacheprovider",
                                "-p", "no:unraisableexception", "-m", choice,
                                "--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"),
                                "-o", "addopts=", str(tmp_path / "test_program.py")],
                               plugins=[plugin])
        return plugin.names

    return names


def test_what_is_not_in_a_run_is_slow_and_has_its_turn(collected):
    everything = set(collected(0, ""))
    assert len(everything) == 19
    drawn = []
    for seed in range(12):
        quick, slow = collected(seed, "not slow"), collected(seed, "slow")
        assert sorted([*quick, *slow]) == sorted(everything)
        assert sum(name.startswith("test_cases") for name in quick) in (2, 3)
        assert "test_one_case_stays[0]" in quick
        assert ("test_first" in quick) != ("test_second" in quick)
        values = [name for name in quick if name.startswith("test_values")]
        assert {name[12] for name in values} == {"0", "1"} and len(values) <= 3
        drawn += quick
    assert set(drawn) == everything - {"test_one_case_stays[1]"}


def names_of_marks():
    """(file, function, arguments of its `turns`) of the tests, as they are written."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "turns":
                    yield path, node, {k.arg: ast.literal_eval(k.value) for k in mark.keywords}


def test_parameters_that_are_named_are_there():
    """One that is misspelled would not be in every run."""
    marks = [*names_of_marks()]
    assert marks
    for path, function, arguments in marks:
        parameters = {argument.arg for argument in function.args.args} | {"tactics_of"}
        assert set(arguments.get("each", ())) <= parameters, (path, function.name)


class Item:
    """A test of tests/converters, as much as is asked of it."""

    def __init__(self, name):
        self.path, self.originalname = Path("tests/converters/test_x.py"), name.split("[")[0]
        self.nodeid, self.marked = f"{self.path}::{name}", False

    def get_closest_marker(self, _):
        return None

    def add_marker(self, _):
        self.marked = True


def test_kernels_take_turns():
    names = [f"test_{op}[{by}]" for op in range(20) for by in ("device", "gpu")]
    parts = []
    for seed in range(8, 8 + FOLDERS["converters"]):
        items = [*map(Item, names)]
        take_turns(items, seed)
        parts.append({item.nodeid for item in items if not item.marked})
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(names)
    assert all(1 < sum("[gpu]" in name for name in part) < len(part) - 1 for part in parts)
