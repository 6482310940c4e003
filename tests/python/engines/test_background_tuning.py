"""background_tuning: engines of level 0 answer while others are tuned, which then take their
place between two calls."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy
import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._base.settings import Settings
from torch_vulkan._engines.engine import split_vke, tensor_bytes
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from helpers import assert_same, in_threads
from marks import turns
from workloads.patience import patience

LEVEL = 4


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(96, 160), nn.ReLU(), nn.Linear(160, 64)).requires_grad_(False)


X = torch.rand(33, 96)


@pytest.fixture(autouse=True)
def nothing_goes_on():
    yield
    assert tv.wait_for_tuning(120)


@pytest.fixture
def options(tmp_path):
    return {"optimization_level": LEVEL, "background_tuning": True, "min_block_size": 1,
            "engine_cache_dir": str(tmp_path)}


@pytest.fixture
def gate(monkeypatch):
    """Holds what is built in the background until `open` is set."""
    class Gate:
        pass

    Gate.open, Gate.reached = threading.Event(), threading.Event()
    real = engine_call.compile_graph

    def compile_graph(*args):
        if threading.current_thread() is not threading.main_thread():
            Gate.reached.set()
            assert Gate.open.wait(60)
        return real(*args)

    monkeypatch.setattr(engine_call, "compile_graph", compile_graph)
    yield Gate
    Gate.open.set()


def layers(engine):
    return [layer for vke in split_vke(tensor_bytes(engine.vke()))
            for layer in C.vke_info(vke)["layers"]]


def is_tuned(engine):
    return any(layer["time_us"] > 0 for layer in layers(engine))


def built(function, *args, **options):
    """The compiled function without gradients, called once, and the calls of its engines."""
    calls = []
    fast = torch.no_grad()(torch.compile(function, backend="vulkan", options=options))
    with engine_call.collected(calls):
        got = fast(*args)
    return fast, calls, got


def states():
    return [engine.tuning and engine.tuning.state
            for record in compilations.compilations() for engine in record.engines]


@pytest.mark.setting("background_tuning")
def test_the_first_answer_waits_for_no_timing(gate, options):
    model = network()
    C.reset_tuner_stats()
    fast, (call,), got = built(model, X, **options)
    assert_same(got, model(X))
    assert not is_tuned(call.engine) and C.tuner_stats()["timed"] == 0
    assert gate.reached.wait(60)
    assert states() == ["running"] and not tv.wait_for_tuning(0.01)
    assert_same(fast(X), model(X))
    gate.open.set()
    assert tv.wait_for_tuning(120)
    assert states() == ["done"] and is_tuned(call.engine)
    assert C.tuner_stats()["timed"] > 0 and C.tuner_stats()["wrong"] == 0
    assert_same(fast(X), model(X))


def test_the_next_process_starts_with_the_tuned_engine(options):
    model = network()
    _, (first,), _ = built(model, X, **options)
    assert tv.wait_for_tuning(120)
    torch._dynamo.reset()
    compilations.clear()
    C.reset_tuner_stats()
    _, (second,), got = built(model, X, **options)
    assert states() == [None]
    assert layers(second.engine) == layers(first.engine) and is_tuned(second.engine)
    assert C.tuner_stats()["problems"] == 0
    assert_same(got, model(X))


def test_level_0_leaves_nothing_to_be_tuned(options):
    built(network(), X, **options | {"optimization_level": 0})
    assert states() == [None]


def change_in_place(model):
    model[0].weight.mul_(-2)


def load_others(model):
    model.load_state_dict(network(1).state_dict())


def replace_storage(model):
    model[2].weight.data = torch.rand(64, 160)


@turns(3)
@pytest.mark.parametrize("change", [change_in_place, load_others, replace_storage])
@pytest.mark.parametrize("called_between", [False, True])
def test_a_change_of_weights_before_the_swap_is_not_lost(gate, options, change, called_between):
    model = network()
    fast, (call,), _ = built(model, X, **options)
    assert gate.reached.wait(60)
    change(model)
    if called_between:
        assert_same(fast(X), model(X))
    gate.open.set()
    assert tv.wait_for_tuning(120) and is_tuned(call.engine)
    assert_same(fast(X), model(X))
    change(model)
    assert_same(fast(X), model(X))


def test_a_refit_of_a_program_before_the_swap_is_not_lost(gate, options):
    program = tv.compile(network(), [X], **options)
    program(X)
    assert gate.reached.wait(60)
    other = network(1)
    tv.refit(program, other.state_dict())
    assert_same(program(X), other(X))
    gate.open.set()
    assert tv.wait_for_tuning(120)
    assert is_tuned(*program.engine_objects().values())
    assert_same(program(X), other(X))


def linear_and_two_engines(tmp_path):
    """A linear layer, its engine, and the files of two engines for it."""
    model = nn.Linear(96, 64).requires_grad_(False)
    files = []
    for level in (0, LEVEL):
        torch._dynamo.reset()
        _, (call,), _ = built(model, X, min_block_size=1, optimization_level=level,
                              engine_cache_dir=str(tmp_path))
        files.append(call.engine.vke())
    return model, call.engine, files


def weights_of(engine, model):
    weights = C.vke_info(split_vke(tensor_bytes(engine.vke()))[0])["weights"]
    return [model.weight if len(w["shape"]) == 2 else model.bias for w in weights]


def test_a_refit_that_is_under_way_at_the_swap_is_not_lost(tmp_path):
    """What torch cannot see of the change (`.data`, numpy) is told to the engine that was."""
    model, engine, (first, second) = linear_and_two_engines(tmp_path)
    weights = weights_of(engine, model)
    engine.replace(first)
    engine.execute([X], weights)
    values = [torch.rand_like(w) for w in weights]
    staged = engine.stage(weights, [0, 1], values)
    engine.replace(second)
    assert_same(engine.execute([X], weights)[0], model(X))  # of the old weights, and keeps them
    for weight, value in zip(weights, values, strict=True):
        numpy.copyto(weight.numpy(), value.numpy())
    engine.commit(staged, weights)
    assert_same(engine.execute([X], weights)[0], model(X))


@turns(2, group="swaps")
def test_engines_are_replaced_while_threads_call_and_refit(tmp_path):
    model, engine, files = linear_and_two_engines(tmp_path)
    mine = [nn.Linear(96, 64).requires_grad_(False) for _ in range(3)]
    ends = threading.Event()

    def work(i):
        if i == 3:
            try:
                for n in range(40):
                    engine.replace(files[n % 2])
            finally:
                ends.set()
            return
        weights = weights_of(engine, mine[i])
        while not ends.is_set():
            mine[i].weight.add_(0.01)
            assert_same(engine.execute([X], weights)[0], mine[i](X))

    in_threads(work)


def test_an_engine_of_another_graph_takes_no_place(tmp_path):
    model, engine, _ = linear_and_two_engines(tmp_path)
    _, (other,), _ = built(lambda x: torch.relu(x @ x.T), X, min_block_size=1)
    with pytest.raises(ValueError, match="of another graph"):
        engine.replace(other.engine.vke())
    with pytest.raises(ValueError):
        engine.replace(torch.zeros(64, dtype=torch.uint8))
    assert_same(engine.execute([X], weights_of(engine, model))[0], model(X))


def test_weights_that_are_part_of_the_key_stay_part_of_it(options):
    options |= {"immutable_weights": True}
    settings = Settings.from_options(options).keyed_by([X])
    assert settings.replaced(optimization_level=0).cache_json() == settings.cache_json()
    for seed in range(2):
        model = network(seed)
        torch._dynamo.reset()
        fast, (call,), got = built(model, X, **options)
        assert_same(got, model(X))
        assert tv.wait_for_tuning(120) and is_tuned(call.engine)
        assert_same(fast(X), model(X))


def test_a_failure_leaves_the_engine_that_answers(gate, options, monkeypatch, caplog):
    held = engine_call.compile_graph

    def compile_graph(*args):
        if threading.current_thread() is not threading.main_thread():
            assert gate.open.wait(60)
            raise MemoryError("no memory for another")
        return held(*args)

    monkeypatch.setattr(engine_call, "compile_graph", compile_graph)
    model = network()
    fast, (call,), _ = built(model, X, **options)
    gate.open.set()
    with caplog.at_level(logging.WARNING, "torch_vulkan"):
        assert tv.wait_for_tuning(60)
    ((tuning,),) = [[engine.tuning for engine in record.engines]
                    for record in compilations.compilations()]
    assert tuning.state == "failed" and "no memory for another" in tuning.error
    assert "no memory for another" in caplog.text and call.record.name in caplog.text
    assert not is_tuned(call.engine)
    assert_same(fast(X), model(X))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_leaves_nobody_waiting(gate, options, monkeypatch):
    """Whatever ends it; the next engine is tuned in another."""
    held = engine_call.compile_graph

    def compile_graph(*args):
        if threading.current_thread() is not threading.main_thread():
            assert gate.open.wait(60)
            raise SystemExit("the end")
        return held(*args)

    monkeypatch.setattr(engine_call, "compile_graph", compile_graph)
    for seed in range(2):
        built(network(seed), X, **options)
        torch._dynamo.reset()
    gate.open.set()
    assert tv.wait_for_tuning(60)
    assert states() == ["failed", "failed"]
    monkeypatch.setattr(engine_call, "compile_graph", held)
    built(network(2), X, **options)
    assert tv.wait_for_tuning(60)
    assert states()[-1] == "done"


def test_a_priority_that_cannot_be_lowered_stays(options, monkeypatch):
    def refused(*_):
        raise PermissionError("not here")

    monkeypatch.setattr(os, "setpriority", refused)
    built(network(), X, **options)
    assert tv.wait_for_tuning(60)
    assert states() == ["done"]


def test_a_program_that_is_gone_is_not_kept(gate, options):
    fast, calls, _ = built(network(), X, **options)
    engine = weakref.ref(calls.pop().engine)
    assert gate.reached.wait(60)
    del fast
    torch._dynamo.reset()
    compilations.clear()
    gc.collect()
    assert engine() is None
    gate.open.set()
    assert tv.wait_for_tuning(120)


@turns(2, group="swaps")
def test_training_goes_on_over_the_swap(gate, options):
    model, twin = network().requires_grad_(True), network().requires_grad_(True)
    fast = torch.compile(model, backend="vulkan", options=options)
    for step in range(3):
        for module, call in ((model, fast), (twin, twin)):
            module.zero_grad()
            call(X).square().mean().backward()
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter -= 0.1 * parameter.grad
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)
        if step == 1:
            gate.open.set()
            assert tv.wait_for_tuning(120)
            assert states() == ["done", "done"]


@turns(2, group="swaps")
def test_profiles_are_tuned_together(gate, options):
    model = network()
    rows = {"min_shape": (1, 96), "opt_shape": (8, 96), "max_shape": (64, 96)}
    program = tv.compile(model, [tv.Input(**rows)], profiles=[
        tv.Profile(input=((1, 96), (2, 96), (4, 96))),
        tv.Profile(input=((5, 96), (32, 96), (64, 96)))], **options)
    (engine,) = program.engine_objects().values()
    parts = len(split_vke(tensor_bytes(engine.vke())))
    assert parts == 2
    for rows in (2, 33):
        assert_same(program(X[:rows]), model(X[:rows]))
    gate.open.set()
    assert tv.wait_for_tuning(120) and is_tuned(engine)
    assert len(split_vke(tensor_bytes(engine.vke()))) == parts
    for rows in (2, 33):
        assert_same(program(X[:rows]), model(X[:rows]))


def test_a_program_is_saved_once_it_is_tuned(gate, options, tmp_path):
    program = tv.compile(network(), [X], **options)
    saving = threading.Thread(target=tv.save, args=(program, tmp_path / "net.pt2"))
    saving.start()
    assert gate.reached.wait(60)
    assert saving.is_alive()  # nothing is tuned before the gate opens
    gate.open.set()
    saving.join()
    (engine,) = tv.load(tmp_path / "net.pt2").engine_objects().values()
    assert is_tuned(engine)


def test_the_profile_of_a_program_has_the_calls_of_both_engines(gate, options):
    program = tv.compile(network(), [X], **options)
    with tv.profile(program, runs=1) as profile:
        program(X)
        gate.open.set()
        assert tv.wait_for_tuning(120)
        program(X)
    assert {layer["call"] for layer in profile.layers} == {0, 1}


@pytest.mark.parametrize("build", [
    lambda options: tv.onnx.compile("net.onnx", **options),
    lambda options: tv.compile(torch.jit.trace(network(), X), [X], **options),
])
def test_what_is_built_at_once_refuses_it(options, build):
    with pytest.raises(ValueError, match="background_tuning is for torch.compile"):
        build({"background_tuning": True})


def test_the_builder_refuses_it():
    b = tv.Builder()
    b.output("y", b.op("aten::relu", b.input("x", (3, 5))))
    with pytest.raises(ValueError, match="background_tuning is for torch.compile"):
        b.build(background_tuning=True)


def test_the_dry_run_says_what_answers_first():
    report = tv.dry_run(network(), [X], background_tuning=True, optimization_level=3,
                        min_block_size=1)
    assert "level 0, until those of level 3 are tuned in the background" in " ".join(
        str(report).split())
    assert report.data["settings"]["background_tuning"] is True
    assert "background" not in str(tv.dry_run(network(), [X], min_block_size=1))


def test_a_child_waits_for_nothing(gate, options):
    built(network(), X, **options)
    assert gate.reached.wait(60)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            over = tv.wait_for_tuning(30)
            status = 0 if over and states() == ["stopped"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ENDS = """
import atexit, json, os, signal, sys, threading
atexit.register(lambda: print(json.dumps([e.tuning.state for r in compilations.compilations()
                                          for e in r.engines])))
sys.path.insert(0, {here!r})
import torch
import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx import engine_call
from test_background_tuning import X, built, network

timing, waiting, real = threading.Event(), threading.Event(), engine_call.compile_graph
signal.signal(signal.SIGINT, signal.default_int_handler)

def compile_graph(graph, settings, profile, progress, cache):
    def told(stage, done, total):
        if stage.startswith("tune") and not timing.is_set():
            timing.set()
            if {interrupts}:
                waiting.wait(60)  # what runs before may not hand an interrupt on
                os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(2)  # the main thread ends before there is nothing left to time
        progress(stage, done, total)

    main = threading.current_thread() is threading.main_thread()
    return real(graph, settings, profile, progress if main else told, cache)

engine_call.compile_graph = compile_graph
model = network()
_, _, got = built(model, X, optimization_level=5, background_tuning=True, min_block_size=1,
                  engine_cache_dir={folder!r})
torch.testing.assert_close(got, model(X))
waiting.set()
if {interrupts}:
    tv.wait_for_tuning()
assert timing.wait(60)
"""


@turns(2)
@pytest.mark.parametrize("interrupts", [False, True])
def test_a_process_ends_cleanly_while_it_tunes(tmp_path, interrupts):
    program = ENDS.format(here=os.path.dirname(__file__), folder=str(tmp_path),
                          interrupts=interrupts)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=patience(300),
                         env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert ran.returncode == (-signal.SIGINT if interrupts else 0), ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == ["stopped"], ran.stdout
    assert ("KeyboardInterrupt" in ran.stderr) == interrupts
    assert not [*tmp_path.glob("timings.json.timing.*")]  # no candidate counts as deadly
    model = network()
    C.reset_tuner_stats()
    built(model, X, optimization_level=5, background_tuning=True, min_block_size=1,
          engine_cache_dir=str(tmp_path))
    assert tv.wait_for_tuning(120)
    assert C.tuner_stats()["lost"] == 0 and C.tuner_stats()["timed"] > 0
