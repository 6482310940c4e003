"""Random programs do what eager does; programs that once did not still do."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import random_programs
from program_case import Case
from program_check import Verdict, check, shrink
from program_worlds import Difference
from program_writer import write
from random_programs import FOUND, Campaign, arguments

from marks import turns

SEED = os.environ.get("TV_TEST_SEED") or str(int(time.time()))
FEW, MANY = 15, 600  # seconds
KEPT = Path(__file__).parents[2] / "build" / "found"  # programs that differ, shrunk


def campaign(seconds: float, workers: int, *more: str) -> Campaign:
    options = arguments(["--seconds", str(seconds), "--seed", SEED, "--workers", str(workers),
                         "--keep", str(KEPT), *more])
    run = Campaign(options)
    run.run()
    print(run.summary())
    return run


@turns(3)
@pytest.mark.parametrize("path", sorted(FOUND.glob("*.py")), ids=lambda p: p.stem)
def test_found_programs(path):
    verdict = check(path.read_text())
    assert not verdict.wrong, "\n".join(map(str, verdict.wrong))
    assert verdict.calls


def test_random_programs():
    run = campaign(FEW, 1)
    assert not run.found, "\n".join(r["number"] for r in run.found)
    assert run.count["programs"]


@pytest.mark.slow
def test_many_random_programs():
    run = campaign(MANY, os.cpu_count() or 1)
    assert not run.found, "\n".join(r["number"] for r in run.found)
    assert run.count["programs"] > 100


@pytest.mark.parametrize("says, status", [
    ("", 1), ("", 0), ('{"done": true}', 3), ('{"number": "7/0", "calls": 1}', 3)],
    ids=["at once", "in silence", "at its end", "between programs"])
def test_a_worker_that_ends_beside_its_programs_is_found(monkeypatch, tmp_path, says, status):
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\necho '{says}'\necho why >&2\nexit {status}\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    run = Campaign(arguments(["--seconds", "100", "--seed", "7"]))
    run.run()
    (found,) = run.found
    assert found["kinds"] == ["worker"] and f"ended with {status}" in found["wrong"][0]
    assert "why" in found["wrong"][0] and run.count["programs"] == ("number" in says)


@pytest.mark.parametrize("beside, pytorchs", [(-11, True), (-6, False), (0, False)])
def test_a_crash_is_pytorchs_where_its_own_backend_has_it(monkeypatch, beside, pytorchs):
    monkeypatch.setattr(Campaign, "_again", lambda *_: (beside, ""))
    record = Campaign(arguments([]))._crash("7/1", -11, "")
    assert record.get("torchs", 0) == pytorchs
    assert ("wrong" in record) != pytorchs


@pytest.mark.parametrize("alone", [0, 1, None])
def test_what_the_system_killed_counts_if_it_is_wrong_alone(monkeypatch, alone):
    def again(self, number, *how):
        return (0, "") if "--beside" in how else (alone, "values of output 0")

    monkeypatch.setattr(Campaign, "_again", again)
    record = Campaign(arguments([]))._crash("7/1", -9, "")
    assert record.get("killed", 0) == (alone == 0)
    assert ("values of output 0" in str(record.get("wrong"))) == (alone != 0)


def test_a_campaign_that_is_stopped_ends_with_its_workers():
    run = Campaign(arguments(["--seconds", "1000", "--seed", SEED, "--workers", "2"]))
    thread = threading.Thread(target=run.run)
    thread.start()
    while len(run._processes) < 2:
        time.sleep(0.01)
    workers = list(run._processes)
    run.stop()
    thread.join(30)
    assert not thread.is_alive() and not run._processes
    assert {worker.returncode for worker in workers} == {-9}
    assert not run.found and run._again("7/1", "--beside") == (None, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_campaign_in_the_background_ends_with_its_summary(number):
    """A shell has such jobs ignore SIGINT."""
    command = [sys.executable, random_programs.__file__, "--seconds", "1000", "--seed", SEED]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))  # noqa: PLW1509
    threads = Path(f"/proc/{process.pid}/task")
    while not any((one / "children").read_text() for one in threads.iterdir()):
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert f"seed {SEED}:" in said and "0 differences" in said


def test_a_seed_writes_the_same_program():
    assert write("7/1").text() == write("7/1").text() != write("7/2").text()


WRONG = '''import torch

MODE, DYNAMIC, CALLS, OPTIONS = "no_grad", None, 1, {}


def inputs(call, state):
    return (torch.ones(3),)


def program(x):
    return %s if torch.compiler.is_compiling() else %s
'''


@pytest.mark.parametrize(("compiled", "eager", "kind"), [
    ("x + 2", "x + 1", "values"), ("x.double()", "x", "dtype"), ("x + 0", "x", "storage"),
    ("(x + 1)[1:]", "x + 1", "shape"), ("x.add_(0)", "x", "version"), ("x.view(7)", "x", "error"),
    ("[x]", "x", "results"), ("x.add_(1) * 0 + 1", "x * 1", "values"),
    ("(x + 1).expand(3, 3).t()", "(x + 1).expand(3, 3)", "strides")])
def test_differences_are_seen(compiled, eager, kind, monkeypatch):
    """With aot_eager taken to be right, which differs likewise here."""
    monkeypatch.setattr("program_check._without", lambda found, others: found)
    assert kind in check(WRONG % (compiled, eager)).kinds()


def test_a_case_shrinks_to_what_fails():
    case = Case(["x = 1"], ["x"], ["a = x", "b = a + 1", "c = b", "wrong = b"], ["a", "c"],
                calls=3)

    def judge(text):
        return Verdict([Difference("values", 0, "c")] if "wrong" in text else [])

    small = shrink(case, 10, judge)
    assert small.body == ["wrong = b"] and small.calls == 1 and len(small.returned) == 1
