"""Refusals are told apart by their words, in advice.py and where a reason asks for other behaviour:
the words are in a text of the sources."""

import ast
import functools
import re
from pathlib import Path
from re import _parser

import pytest

from torch_vulkan._base import calibration_use
from torch_vulkan._dry_run import advice

ROOT = Path(__file__).parents[3]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def words(pattern: str) -> list[str]:
    """What a pattern has of text as it stands: its runs of characters, but for spaces alone."""
    runs = [""]

    def walk(parsed):
        for kind, value in parsed:
            if kind is _parser.LITERAL:
                runs[-1] += chr(value)
                continue
            runs.append("")
            if kind is _parser.SUBPATTERN:
                walk(value[-1])
                runs.append("")

    walk(_parser.parse(pattern))
    return [run for run in runs if run.strip()]


def of_cpp(text: str) -> list[str]:
    """The literals of a C++ file, neighbours joined, without those of comments."""
    code = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    return LITERAL.findall(re.sub(r'"\s*\n\s*"', "", code))


def of_python(text: str) -> list[str]:
    """The texts of a Python file, without those that stand alone: docstrings."""
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [node.value for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and id(node) not in alone]


@functools.cache
def texts() -> str:
    """All texts of the sources that may be refusals, a line each."""
    readers = {Path(advice.__file__).name, Path(calibration_use.__file__).name}
    found = []
    for room in ("runtime", "csrc", "converters", "python"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in {".cpp", ".h"}:
                found += of_cpp(path.read_text())
            elif path.suffix == ".py" and path.name not in readers:
                found += of_python(path.read_text())
    return "\n".join(found)


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in advice._RULES])
def test_the_words_of_a_rule_are_in_the_sources(pattern):
    asked = words(pattern)
    assert asked and max(map(len, asked)) >= 8, "words that many texts have"
    assert [run for run in asked if run not in texts()] == []


def test_a_reason_of_a_small_block_names_the_setting():
    """calibration_use.warn_of_unused looks for it."""
    reason = "its block has 1 compute node, fewer than min_block_size = 2"
    with pytest.warns(UserWarning, match="min_block_size=1 builds it all the same"):
        calibration_use.warn_of_unused({"in_blocks": 0, "left_out": reason})
    assert ", fewer than min_block_size = " in texts()


def test_words_of_patterns():
    assert words(r"^no (a|b) (\S+) c d(, e)?") == ["no ", " c d"]
    assert words(r"needs (x y), \d+ z") == ["needs ", "x y", ", ", " z"]


def test_texts_are_read():
    assert of_cpp('f("a b "\n   "c");  // not "this"\n// "nor this"\ng("d\\"e");') == [
        "a b c", "this", 'd\\"e']
    assert of_python('"""Not this."""\nx = f"a {b} c" "d"\n') == ["a ", " cd"]
