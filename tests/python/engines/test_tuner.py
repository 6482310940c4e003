"""The tuner as users meet it: levels, the timing cache, interruptions."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from torch_vulkan._base.settings import Settings
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from helpers import vulkan
from workloads.patience import patience

PROGRAM = """
import json, sys, torch
sys.path.insert(0, {here!r})
from test_tuner import network, tuned
got, stats, _ = tuned({path!r}, {level})
print(json.dumps(stats))
"""


def network():
    """Two products that several tactics can compute, in an engine."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 160), nn.ReLU(), nn.Linear(160, 64)).requires_grad_(False)
    return model, torch.randn(33, 96)


def tuned(path, level=4, **options):  # at 5 graphs that are not built are timed, too
    """Result, counters of the tuner and layers of a build that reads no other cache."""
    model, x = network()
    torch._dynamo.reset()
    C.reset_tuner_stats()
    calls = []
    with torch.no_grad(), engine_call.collected(calls):
        got = vulkan(model, optimization_level=level, timing_cache_path=str(path),
                     cache_built_engines=False, reuse_cached_engines=False, **options)(x)
    layers = [layer for call in calls for layer in C.vke_info(call.vke())["layers"]]
    return got, C.tuner_stats(), layers


@pytest.fixture
def path(tmp_path):
    return tmp_path / "timings.json"


def timings(path):
    (problems,) = json.loads(path.read_text())["devices"].values()
    return problems


def test_tactics_are_timed_and_the_results_hold(path):
    model, x = network()
    got, stats, layers = tuned(path)
    torch.testing.assert_close(got, model(x))
    assert stats["timed"] >= 4 and stats["problems"] == 2 and stats["wrong"] == 0
    assert all(layer["tactic"] for layer in layers)
    assert any(layer["time_us"] > 0 for layer in layers)
    assert len(timings(path)) == 2
    for tactics in timings(path).values():
        assert len(tactics) >= 2 and all(t["time_us"] > 0 for t in tactics.values())


def test_a_cached_problem_is_never_timed_twice(path):
    got, first, layers = tuned(path)
    again, second, same = tuned(path)
    assert second["timed"] == 0 and second["checked"] == 0
    assert second["cached"] == first["timed"]
    assert same == layers
    assert torch.equal(got, again)


@pytest.mark.setting("optimization_level")
def test_level_0_times_nothing(path):
    _, stats, layers = tuned(path, level=0)
    assert not any(stats.values())
    assert not path.exists()
    assert all(layer["time_us"] == 0 for layer in layers)


def test_two_processes_share_the_file(path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = PROGRAM.format(here=os.path.dirname(__file__), path=str(path), level=4)
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for process in running:
        out, error = process.communicate(timeout=patience(300))
        assert process.returncode == 0, error
        assert json.loads(out.splitlines()[-1])["problems"] == 2
    assert len(timings(path)) == 2
    assert tuned(path)[1]["timed"] == 0


@pytest.fixture
def ctrl_c():
    """Python's own handler: processes that a shell starts in the background ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_build_keeps_what_it_timed(path, monkeypatch, ctrl_c):
    class Interrupt:
        """Presses Ctrl-C before the second problem's first candidate."""

        problems = 0

        def __call__(self, stage, done, total):
            if stage.startswith("compile candidates"):
                self.problems += done == 0
                if self.problems == 2:
                    signal.raise_signal(signal.SIGINT)

        def close(self):
            pass

    whole = tuned(path.with_name("whole.json"))[1]["timed"]
    with monkeypatch.context() as patch:
        patch.setattr(engine_call, "progress_for", lambda *_: Interrupt())
        with pytest.raises(KeyboardInterrupt):
            tuned(path)
    interrupted = C.tuner_stats()["timed"]
    assert 0 < interrupted < whole
    assert len(timings(path)) == 1
    assert tuned(path)[1]["timed"] == whole - interrupted


def test_ctrl_c_is_seen_where_no_progress_is_shown(path, monkeypatch):
    real = engine_call.compile_graph

    def compile_graph(*args):
        assert args[3] is None  # progress
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        return real(*args)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    monkeypatch.setattr(engine_call, "compile_graph", compile_graph)
    monkeypatch.setattr(engine_call, "progress_for", lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            tuned(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FOREIGN = [b"{", b"\xff\xfe\x00", b'{"format": "timings"}']


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_that_is_somebody_elses_stays(path, content, capfd):
    """A mistyped name of a file must not cost the file."""
    path.write_bytes(content)
    before = sorted(path.parent.iterdir())
    assert tuned(path)[1]["timed"] >= 4
    assert path.read_bytes() == content
    assert sorted(path.parent.iterdir()) == before
    assert "is no file of timings and stays as it is" in capfd.readouterr().err


def test_an_empty_file_is_filled(path):
    path.write_bytes(b"")
    tuned(path)
    assert len(timings(path)) == 2


@pytest.mark.parametrize("content, own", [
    (b'{"devices": {', False), (b'{\n "devices": {"x": 1}, "format"', False),
    (b'{"format": "torch_vulkan timings", "version": 2}', False), *((c, True) for c in FOREIGN)])
def test_a_bad_file_is_a_miss(path, content, own):
    """One that begins as ours, or lies beside the cache's engines."""
    path.write_bytes(content)
    if own:
        (path.parent / "engines").mkdir(parents=True)
    assert tuned(path)[1]["timed"] >= 4
    assert path.with_name("timings.json.bad").read_bytes() == content
    assert len(timings(path)) == 2


def test_the_debug_folder_has_candidates_times_and_refusals(path, tmp_path):
    tuned(path, debug=str(tmp_path / "dump"))
    (file,) = (tmp_path / "dump").rglob("tactics.txt")
    lines = file.read_text().splitlines()
    assert any(line.startswith("  * ") and line.endswith("us, checked") for line in lines)
    assert any(": refused, " in line for line in lines)


def test_the_file_is_in_the_cache_directory_unless_named(tmp_path):
    def file(**options):
        compiler = Settings.from_options(options).compiler_json()
        return json.loads(compiler)["timing_cache_path"]

    assert file(engine_cache_dir=tmp_path) == f"{tmp_path}/timings.json"
    assert file(timing_cache_path=tmp_path / "t") == str(tmp_path / "t")
    assert file(cache_built_engines=False) == ""


def test_the_environment_gives_the_level(monkeypatch):
    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "4")
    assert Settings.from_options({}).optimization_level == 4
    assert Settings.from_options({"optimization_level": 1}).optimization_level == 1
    monkeypatch.setenv("TORCH_VULKAN_OPTIMIZATION_LEVEL", "fast")
    with pytest.raises(ValueError, match="_OPTIMIZATION_LEVEL: got 'fast', want 0 to 5"):
        Settings.from_options({})
    monkeypatch.delenv("TORCH_VULKAN_OPTIMIZATION_LEVEL")
    assert Settings.from_options({}).optimization_level == 3
