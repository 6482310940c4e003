"""Processes that are killed, jobs that are cancelled, folders that are in use."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from torch_vulkan._service import server
from torch_vulkan._service.client import client as client_module
from torch_vulkan._service.jobs import artifacts
from torch_vulkan._service.jobs.scheduler import Scheduler
from torch_vulkan._service.running import local_runner
from torch_vulkan._service.running.local_runner import LocalRunner
from torch_vulkan._service.running.runner import Status
from torch_vulkan._service.running.sandbox import Limits
from torch_vulkan._service.running.timings import Timings
from torch_vulkan._service.storage import signing
from torch_vulkan._service.storage.database import Database
from torch_vulkan._service.storage.store import Store
from torch_vulkan._service.storage.tables import ENDED, Device, Job, Task

from workloads.service_process import SCRIPT, SECONDS, environment, layers, long_model, until

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")


def submit_some(client, count):
    return [client.submit(layers([8 + i, 5])[0], ["lavapipe"], name="killed", job_id=f"job-{i}",
                          options={"optimization_level": 0})["id"] for i in range(count)]


def tuning(service, client, job_id="long"):
    """Submits what takes long to tune; returns the process that does it."""
    client.submit(long_model(), ["lavapipe"], name="long", job_id=job_id)
    until(lambda: client.details(job_id)["tasks"][1]["state"] == "INPROGRESS", "tuning")
    return until(service.children, "a task")


def test_nothing_is_lost_when_the_service_is_killed(own_service):
    with own_service.client() as client:
        jobs = submit_some(client, 4)
    for _ in range(2):
        with own_service.client() as client:
            until(lambda c=client: [j for j in c.list() if j["state"] != "STARTING"], "a start")
        own_service.kill()
        own_service.start()
    with own_service.client() as client:
        assert [client.wait(job, SECONDS)["state"] for job in jobs] == ["COMPLETED"] * 4
        assert sorted(job["id"] for job in client.list()) == sorted(jobs)
        assert len(client.artifacts("killed")) == 4, "one for each task"
        assert submit_some(client, 1) == jobs[:1], "the id stands for the job still"
        assert len(client.list()) == 4


def test_tasks_end_with_the_service(own_service):
    with own_service.client() as client:
        (child,) = tuning(own_service, client)
    own_service.kill()
    until(lambda: not os.path.exists(f"/proc/{child}") or _is_zombie(child), "its end")
    own_service.start()
    with own_service.client() as client:
        until(lambda: client.details("long")["tasks"][1]["attempt"] == 2, "the second attempt")
        client.cancel("long")
        assert client.wait("long", SECONDS)["state"] == "STOPPED"
        assert not any(artifact["tuned"] for artifact in client.artifacts())


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_task_is_tried_again_three_times(own_service):
    with own_service.client() as client:
        tuning(own_service, client)
        for attempt in (1, 2, 3):
            until(lambda a=attempt: client.details("long")["tasks"][1]["attempt"] == a
                  and own_service.children(), f"attempt {attempt}")
            for child in own_service.children():
                os.kill(child, signal.SIGKILL)
        job = client.wait("long", SECONDS)
        assert job["state"] == "FAILED"
        assert "signal 9" in job["tasks"][1]["reasons"][0]
        # The service goes on.
        job = client.submit(layers([8, 5])[0], ["lavapipe"], name="next")
        assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"


def test_a_job_is_cancelled_while_it_runs_and_before(own_service):
    with own_service.client() as client:
        tuning(own_service, client, "runs")
        client.submit(layers([8, 5])[0], ["lavapipe"], name="short", job_id="waits")
        assert client.cancel("waits")["state"] in ("STOPPING", "STOPPED")
        assert client.wait("waits", SECONDS)["tasks"][1]["attempt"] == 0
        assert client.cancel("runs")["state"] == "STOPPING"
        assert client.wait("runs", SECONDS)["state"] == "STOPPED"
        until(lambda: not own_service.children(), "the end of the process")
        assert client.cancel("runs")["state"] == "STOPPED", "again: nothing happens"
        assert not any(artifact["tuned"] for artifact in client.artifacts())


def serve(*arguments, **variables):
    return subprocess.run([sys.executable, SCRIPT, "serve", *arguments], capture_output=True,
                          text=True, timeout=SECONDS, env=environment(**variables))


def test_a_folder_has_one_service_which_ends_when_asked(service):
    done = serve("--data", str(service.folder), "--port", "0", "--no-sandbox")
    assert done.returncode == 1 and "another service uses" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_bubblewrap_it_does_not_start_unless_told_to(tmp_path):
    done = serve("--data", str(tmp_path / "data"), PATH="/nowhere")
    assert done.returncode == 1
    assert "apt install bubblewrap" in done.stderr and "--no-sandbox" in done.stderr
    assert not (tmp_path / "data").exists()


def test_it_ends_when_asked_and_leaves_no_process(own_service):
    with own_service.client() as client:
        (child,) = tuning(own_service, client)
    assert own_service.stop() == 0
    assert not os.path.exists(f"/proc/{child}")


def test_answers_are_not_held_back():
    """asyncio turns Nagle's algorithm off where the socket's protocol is named."""
    with server._socket(*server._address("127.0.0.1", 0)) as made:
        assert made.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("left", ["[" * 100_000, "{", "[]", '{"state": "COMPLETED"}', None])
def test_whatever_a_task_leaves_is_a_result(tmp_path, left):
    """It read a model that may be hostile: one bad result must not keep others waiting."""
    if left is None:
        (tmp_path / "result.json").mkdir()
    else:
        (tmp_path / "result.json").write_text(left)
    made = Scheduler(None, Store(tmp_path / "store"), None, None, None)
    result, artifact = made._outcome(Status(False, tmp_path))
    assert result["state"] == "FAILED" and result["reasons"] and artifact is None


GOOD = {"state": "COMPLETED", "reasons": [], "tuned": False, "version": "1", "builder": "sources\n",
        "engine_key": "0" * 64}


class _Left:
    """A runner whose runs have ended; each left a result."""

    def __init__(self, folder, results):
        self.tuners = dict
        self.slots, self._folder, self._results = len(results), folder, iter(results)
        self.forgotten = []

    def submit(self, run):
        folder = self._folder / run.id
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(next(self._results)))
        (folder / "engine.vke").write_bytes(run.id.encode())

    def status(self, run_id):
        return Status(False, self._folder / run_id)

    def forget(self, run_id):
        self.forgotten.append(run_id)


def _scheduled(tmp_path, results, runs=None):
    """The states and reasons of tasks that left these results, in order."""
    store = Store(tmp_path / "store")
    digest = store.put(b"model")
    with contextlib.closing(Database(tmp_path / "service.db")) as database:
        with database.writing() as session:
            session.add(Device(name="d", description="", profile={}, runs_on="{}", tuned_for="{}"))
            for i in range(len(results)):
                session.add(Job(id=f"j{i}", request_sha256="", model="m", key="", options={},
                                model_digest=digest))
                session.flush()
                session.add(Task(job=i + 1, device="d", level=0))
        runner = _Left(tmp_path, results)
        scheduler = Scheduler(database, store, runner,
                              signing.Signer(tmp_path / "key"), Timings(tmp_path / "timings"))
        scheduler._start()
        scheduler._collect()
        assert not scheduler._running and len(runner.forgotten) == (runs or len(results))
        with database.reading() as session:
            tasks = [session.get(Task, i + 1) for i in range(len(results))]
            assert {session.get(Job, task.job).state for task in tasks} <= {*ENDED}
            return [(task.state, *task.reasons) for task in tasks]


@pytest.mark.parametrize("change", [
    {"engine_key": "\ud800"}, {"engine_key": "0" * 65}, {"version": "\ud800"},
    {"version": "1" * 101}, {"builder": "\x1b[2J"}, {"builder": "x" * 1001}], ids=ascii)
def test_texts_of_a_result_are_what_they_should_be(tmp_path, change):
    (state, reason), (other,) = _scheduled(tmp_path, [GOOD | change, GOOD])
    assert (state, other) == ("FAILED", "COMPLETED")
    assert f"{next(iter(change))}: want" in reason


def test_a_result_that_cannot_be_kept_fails_its_task_alone(tmp_path, monkeypatch):
    sign = artifacts.sign

    def once(*given):
        monkeypatch.setattr(artifacts, "sign", sign)
        raise UnicodeError("no text")

    monkeypatch.setattr(artifacts, "sign", once)
    assert _scheduled(tmp_path, [GOOD, GOOD]) == [
        ("FAILED", "its result cannot be kept: UnicodeError"), ("COMPLETED",)]


def test_a_model_that_is_gone_fails_its_task_alone(tmp_path, monkeypatch):
    fetch = Store.fetch

    def once(*given):
        monkeypatch.setattr(Store, "fetch", fetch)
        raise FileNotFoundError(2, "the store has no model")

    monkeypatch.setattr(Store, "fetch", once)
    assert _scheduled(tmp_path, [GOOD, GOOD], runs=1) == [
        ("FAILED", "the store has no model: upload the model again"), ("COMPLETED",)]


def test_runs_that_cannot_be_removed_are_no_hindrance(tmp_path, monkeypatch):
    monkeypatch.setattr(local_runner, "remove_tree", lambda folder: None)
    (tmp_path / "runs" / "1-1" / "a").mkdir(parents=True)
    LocalRunner(tmp_path, 1, Limits(), None)
    assert (tmp_path / "runs" / "1-1" / "a").is_dir()


def test_a_task_that_prints_nothing_is_followed(own_service, monkeypatch):
    monkeypatch.setattr(client_module, "_TIMEOUT_S", 1)
    with own_service.client() as client, own_service.client() as other:
        client.submit(long_model(), ["lavapipe"], name="long", job_id="long")
        threading.Timer(4, lambda: other.cancel("long")).start()
        for _ in client.logs("long", follow=True):
            pass
        assert client.wait("long", SECONDS)["state"] == "STOPPED"


class _Clock:
    """time, for the client: sleeping takes no time."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept.append(seconds)


def _waiting(monkeypatch, answers):
    """A client whose service gives these answers, and its clock."""
    clock, answers = _Clock(), iter(answers)
    monkeypatch.setattr(client_module, "time", clock)
    client = client_module.Client("http://127.0.0.1:9", "tv_x")
    client._http = httpx.Client(base_url=client.url, transport=httpx.MockTransport(
        lambda _request: next(answers)))
    return client, clock


def _too_many(after):
    return httpx.Response(429, headers={"Retry-After": after}, json={"error": {
        "code": "too_many", "message": "too many", "details": []}})


def _is(state):
    return httpx.Response(200, json={"state": state})


def test_waiting_asks_less_and_less_often_and_when_it_is_told_to(monkeypatch):
    client, clock = _waiting(monkeypatch, [
        *[_is("INPROGRESS")] * 20, _too_many("17"), _too_many("9" * 9), _too_many("soon"),
        _is("COMPLETED")])
    assert client.wait("job")["state"] == "COMPLETED"
    assert clock.slept[:20] == sorted(clock.slept[:20]) and clock.slept[0] == 0.2
    assert clock.slept[19:] == [5, 17, 300, 5]


def test_waiting_ends_in_time(monkeypatch):
    for answer in (_is("INPROGRESS"), _too_many("100")):
        client, clock = _waiting(monkeypatch, [answer] * 99)
        with pytest.raises(TimeoutError, match="after 30 s"):
            client.wait("job", 30)
        assert clock.now == pytest.approx(30)
