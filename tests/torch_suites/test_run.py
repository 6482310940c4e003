"""The tool that runs PyTorch's suites: what it counts, and what it calls a failure."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

FILE = "dynamo/test_some.py"


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """run.py, with lists in a folder of the test's, that starts no process."""
    here = Path(__file__).parent
    for name in ("TORCH_VULKAN_OPTIMIZATION_LEVEL", "TORCHINDUCTOR_VEC_ISA_OK"):
        monkeypatch.setenv(name, "0")  # it sets these for its processes
    monkeypatch.delenv("TV_TORCH_SUITES_ALL", raising=False)
    monkeypatch.syspath_prepend(str(here))
    spec = importlib.util.spec_from_file_location("torch_suites_run", here / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KNOWN", tmp_path / "known.txt")
    monkeypatch.setattr(module, "LISTED", tmp_path / "aot_eager.txt")
    monkeypatch.setattr(module, "_watch", lambda *_: None)
    return module


@pytest.fixture
def options(tmp_path):
    return SimpleNamespace(results=tmp_path, seconds=1, seed="1", files=[FILE], workers=1)


def results(tool, options, statuses: dict[str, str], total: int) -> None:
    path = tool._results(options, FILE, 0)
    path.write_text("".join(json.dumps({"case": case, "status": status, "reason": ""}) + "\n"
                            for case, status in statuses.items()))
    tool._total(path).write_text(str(total))


def test_a_file_of_which_nothing_ran_is_a_failure(tool, options):
    assert tool.run(options) == 1


@pytest.mark.parametrize("status, fails", [
    ("pass", False), ("skip", False), ("wrong", True), ("error", True), ("crash", True),
    ("aot_eager", False)])
def test_what_fails(status, fails, tool, options, capsys):
    results(tool, options, {"a": "pass", "b": status}, 5)
    assert tool.run(options) == fails
    assert "3 left" in capsys.readouterr().out
    tool.KNOWN.write_text("b may do so\n")
    assert tool.run(options) == 0


def test_the_list_of_what_aot_eager_fails(tool, options):
    """Made of whole results alone; what it holds is left out, and another such case counts, until
    it is added."""
    passes, one, other = (f"test_some.Some.test_{name}" for name in "abc")
    results(tool, options, {passes: "pass", one: "aot_eager"}, 3)
    with pytest.raises(SystemExit, match="1 cases are left"):
        tool.write(options)
    results(tool, options, {passes: "pass", one: "aot_eager"}, 2)
    assert tool.write(options) == 0
    assert tool.fails_elsewhere() == {one} and f"{FILE}: 1 of 2" in tool.LISTED.read_text()
    assert tool.run(options) == 0
    results(tool, options, {passes: "pass", other: "aot_eager"}, 2)
    assert tool.run(options) == 1
    assert tool.write(options) == 0
    assert tool.fails_elsewhere() == {one, other}


def test_the_list_counts_with_the_versions_that_it_was_written_with(tool, options, monkeypatch):
    results(tool, options, {"a": "pass", "b": "aot_eager"}, 2)
    assert tool.write(options) == 0
    results(tool, options, {"a": "pass", "c": "aot_eager"}, 2)
    assert tool.run(options) == 1
    here = tool.this_torch()
    monkeypatch.setattr(tool, "this_torch", lambda: "torch 2.99, CPU")
    assert tool.run(options) == 0
    assert tool.write(options) == 0 and tool.versions_listed() == {here, "torch 2.99, CPU"}
    assert tool.run(options) == 0


def test_results_are_those_of_one_build(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(tool, "PACKAGE", tmp_path)
    (tmp_path / "module.py").write_text("a = 1")
    first = tool.build_digest()
    assert tool.build_digest() == first
    (tmp_path / "module.py").write_text("a = 2")
    assert tool.build_digest() != first
