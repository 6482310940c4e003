"""The onnx package's backend tests: refused_cases.txt has what is refused, and all others pass.

Every case's refusal is compared. Of those that pass a share runs, another for each seed; all of
them run in `make test-all`.
"""

import configparser
import re
from pathlib import Path

import onnx
import pytest

import node_tests
from seeds import share_of

LISTED = node_tests.listed()
VERSION = node_tests.listed_cases()[1]
SHARES = 8
of_the_version = pytest.mark.skipif(
    onnx.__version__ != VERSION,
    reason=f"this is onnx {onnx.__version__}; the list is of {VERSION}, which setup.cfg asks for")


def runs() -> list[str]:
    """The cases that are to pass; of another version of onnx, all that are not listed."""
    return [name for name in node_tests.cases() if name not in LISTED]


def expect(name):
    result = node_tests.run(name)
    if result.status == "refused" and onnx.__version__ != VERSION:
        pytest.skip(f"not a case of onnx {VERSION}: {result.reason}")
    assert result.status == "pass", f"{name}: {result.reason}"


@of_the_version
def test_what_is_refused_is_what_the_list_says():
    found = node_tests.refusals()
    assert sorted(found.keys() - LISTED.keys()) == [], "refused, and not on the list"
    assert sorted(LISTED.keys() - found.keys()) == [], "on the list, and not refused any more"
    assert node_tests.text_of(found) == node_tests.LIST.read_text(), (
        "run tests/onnx/node_tests.py --write")


@pytest.mark.parametrize("name", share_of(runs(), SHARES))
def test_node(name):
    expect(name)


@pytest.mark.slow
@of_the_version
def test_every_case():
    results = [node_tests.run(name) for name in node_tests.cases()]
    assert [r for r in results if r.status == "wrong"] == []
    assert {r.name for r in results if r.status == "refused"} == LISTED.keys()


def test_consecutive_seeds_take_every_case():
    names = runs()
    taken = [share_of(names, SHARES, seed) for seed in range(1000003, 1000003 + SHARES)]
    assert sorted(sum(taken, [])) == sorted(names)


def test_the_requirements_name_the_version_of_the_list():
    """So a new clone compares, and skips nothing."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    wanted = re.search(r"^onnx==(.+)$", config["options.extras_require"]["test"], re.M)
    assert wanted and wanted[1] == VERSION
