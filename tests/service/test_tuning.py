"""Engines that are there soon, the tuned ones that come after them, and what tuners share."""

import json

import numpy
import pytest
from sqlmodel import select

import torch_vulkan as tv
from torch_vulkan._service.client import fetch
from torch_vulkan._service.client.auto_model import _chosen, _Wish
from torch_vulkan._service.errors import Damaged
from torch_vulkan._service.jobs import artifacts, retention
from torch_vulkan._service.jobs.scheduler import Scheduler
from torch_vulkan._service.running import timings
from torch_vulkan._service.running.runner import Status
from torch_vulkan._service.running.timings import Timings
from torch_vulkan._service.storage import signing
from torch_vulkan._service.storage.database import Database
from torch_vulkan._service.storage.store import Store
from torch_vulkan._service.storage.tables import Artifact, Device, Job, State, Task
from torch_vulkan.service import ServiceError

from workloads.service_process import SANDBOX, SECONDS, Service, layers, long_model, until

ENTRY = {"kernels": "ab", "kind": "timed", "time_us": 1.5}


def file_of(entries, device="{}"):
    return json.dumps({"format": "torch_vulkan timings", "version": 1,
                       "devices": {device: entries}}).encode()


def taken(path, client):
    """Whether AutoModel's cache has a manifest of a tuned engine."""
    return any(signing.opened(file.read_bytes(), [client.signing_key()])["tuned"]
               for file in path.glob("*/*/*.json"))


def test_an_engine_is_there_soon_and_tuned_when_its_device_comes(client, tmp_path, monkeypatch):
    profile = next(d for d in client.devices() if d["name"] == "lavapipe")["profile"]
    service = Service(tmp_path / "data", *SANDBOX)
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "none.json"))
    service.start()
    model, expected = layers([300, 200])
    x = numpy.full((2, 300), 0.1, numpy.float32)

    def load():
        engine = tv.AutoModel.from_pretrained("soon/net", url=service.url, api_key=service.key,
                                              cache_dir=tmp_path / "cache")
        numpy.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-5)

    try:
        with service.client() as client:
            assert client.devices() == []
            client.add_device("lavapipe", profile)
            client.submit(model, ["lavapipe"], name="soon/net", job_id="soon")
            job = client.wait("soon", SECONDS)
            assert job["state"] == "COMPLETED"
            assert [(t["state"], t["level"], t["later"]) for t in job["tasks"]] == [
                ("COMPLETED", 0, False), ("STARTING", 3, True)]
            assert "reading the model" in "".join(client.logs("soon", follow=True))
            with pytest.raises(ServiceError, match="nothing was tuned"):
                client.timings("lavapipe")
            monkeypatch.delenv("VK_DRIVER_FILES")
            load()
            assert not taken(tmp_path / "cache", client)
        service.stop()
        service.start()  # the machine has the device now
        with service.client() as client:
            until(lambda: client.details("soon")["tasks"][1]["state"] == "COMPLETED", "tuning")
            assert client.details("soon")["ended"] == job["ended"], "a job ends once"
            assert [a["tuned"] for a in client.artifacts("soon/net")] == [True, False]
            load()
            assert taken(tmp_path / "cache", client)
            (device,) = json.loads(client.timings("lavapipe"))["devices"]
            assert device == client.devices()[0]["tuned_for"]
    finally:
        service.stop()


def test_what_is_tuned_later_can_be_stopped(own_service):
    with own_service.client() as client:
        here = client.devices()[0]["profile"]
        client.add_device("far-gpu", {**here, "name": "Far GPU", "driver_id": 4,
                                      "type": "discrete", "host_pointers": False})
        client.submit(layers([8, 5])[0], ["far-gpu"], name="later/net", job_id="later")
        assert client.wait("later", SECONDS)["state"] == "COMPLETED"
        assert client.collect(job_days=0)["jobs"] == 0, "it is yet to be tuned"
        client.cancel("later")
        until(lambda: client.details("later")["tasks"][1]["state"] == "STOPPED", "its end")
        assert client.details("later")["state"] == "COMPLETED"
        assert client.collect(job_days=0)["jobs"] == 1


def test_those_that_need_no_device_do_not_wait_for_those_that_tune(own_service):
    with own_service.client() as client:
        client.submit(long_model(), ["lavapipe"], name="long", job_id="long")
        until(lambda: client.details("long")["tasks"][1]["state"] == "INPROGRESS", "tuning")
        client.submit(layers([8, 5])[0], ["lavapipe"], name="quick", job_id="quick",
                      options={"optimization_level": 0})
        assert client.wait("quick", SECONDS)["state"] == "COMPLETED"
        assert client.details("long")["tasks"][1]["state"] == "INPROGRESS"
        client.cancel("long")
        client.wait("long", SECONDS)


def test_machines_elsewhere_share_timings_too(client, tmp_path):
    (device,) = [d["tuned_for"] for d in client.devices() if d["name"] == "lavapipe"]
    assert client.add_timings("lavapipe", file_of({"p": {"t": ENTRY}}, device)) == 1
    assert client.add_timings("lavapipe", file_of({"p": {"t": ENTRY}}, device)) == 0
    assert json.loads(client.timings("lavapipe"))["devices"][device]["p"] == {"t": ENTRY}
    for bad in (b"{", b"[]", b"x" * 100, file_of([], device)):
        with pytest.raises(ServiceError, match="no file of timings"):
            client.add_timings("lavapipe", bad)
    with pytest.raises(ServiceError, match="no device"):
        client.timings("none")
    with pytest.raises(ServiceError, match="no device"):
        client.add_timings("none", file_of({}))


@pytest.mark.parametrize("entry", [
    None, [], {}, {**ENTRY, "kind": "best"}, {**ENTRY, "time_us": -1}, {**ENTRY, "time_us": True},
    {**ENTRY, "time_us": 1e300}, {**ENTRY, "time_us": 10 ** 400},
    {**ENTRY, "time_us": float("nan")}, {**ENTRY, "kernels": 1},
    {**ENTRY, "why": 1}, {**ENTRY, "step_us": 1}, {**ENTRY, "step_us": ["1"]},
    {**ENTRY, "other": 1}, {**ENTRY, "kernels": "\ud800"}, {"kernels": "a", "kind": "timed"},
    {"kernels": "a" * 5000, "kind": "lost"}], ids=str)
def test_an_entry_that_the_compiler_would_not_read_is_left_out(tmp_path, entry):
    made = Timings(tmp_path)
    assert made.add("{}", file_of({"p": {"bad": entry, "good": ENTRY}})) == 1
    assert json.loads(made.get("{}"))["devices"] == {"{}": {"p": {"good": ENTRY}}}


def test_of_other_tasks_no_result_is_believed(tmp_path):
    """That a kernel gave the reference's result is found out by whoever chooses it; what is never
    to be used stays so."""
    made = Timings(tmp_path)
    wrong = {"kernels": "ab", "kind": "wrong", "why": "differs"}
    made.add("{}", file_of({"p": {"a": {**ENTRY, "checked": True},
                                  "b": {**ENTRY, "why": "not checked"}, "c": wrong}}))
    made.add("{}", file_of({"p": {"d": ENTRY}, "q": {"a": ENTRY}}))
    made.add("{}", file_of({"q": {"z": ENTRY}}, device="another"))
    assert json.loads(made.get("{}"))["devices"]["{}"] == {
        "p": {"a": ENTRY, "b": ENTRY, "c": wrong, "d": ENTRY}, "q": {"a": ENTRY}}
    assert made.get("another") is None
    made._path("{}").write_text("damaged")
    assert made.add("{}", file_of({"p": {"a": ENTRY}})) == 1, "timings begin anew"


def test_one_task_cannot_take_the_timings_of_others_away(tmp_path, monkeypatch):
    made = Timings(tmp_path)
    made.add("{}", file_of({"p": {"a": ENTRY}}))
    for kind in ("wrong", "lost", "refused"):
        assert made.add("{}", file_of({"p": {"a": {"kernels": "ab", "kind": kind}}})) == 0
    assert made.add("{}", file_of({"p": {"a": {"kernels": "new", "kind": "lost"}}})) == 1
    # Nor can it stop them for good.
    monkeypatch.setattr(timings, "LONGEST", 2000)
    made.add("{}", file_of({f"{i}": {"a": ENTRY} for i in range(15)}))
    made.add("{}", file_of({"p" * 900: {"a": ENTRY}}))
    assert made.add("{}", file_of({"q": {"a": ENTRY}})) == 1
    assert "q" in json.loads(made.get("{}"))["devices"]["{}"] and len(made.get("{}")) <= 2000


class _Fleet:
    """A runner with devices that come and go; a run that tunes measures one thing."""

    def __init__(self, folder):
        self.slots, self.devices, self._folder, self.runs = 1, {}, folder, []

    def tuners(self):
        return self.devices

    def submit(self, run):
        self.runs.append(run)
        folder = self._folder / run.id
        folder.mkdir()
        (folder / "timings.json").write_bytes(file_of({"p": {run.id: ENTRY}}, "{1}"))
        (folder / "engine.vke").write_bytes(run.id.encode())
        (folder / "result.json").write_text(json.dumps({
            "state": "COMPLETED", "reasons": [], "tuned": run.request["level"] > 0,
            "version": "1", "builder": "", "engine_key": "0" * 64}))

    def status(self, run_id):
        return Status(False, self._folder / run_id)

    def forget(self, run_id):
        pass


@pytest.fixture
def fleet(tmp_path):
    """A scheduler, its runner, and three jobs: for two devices of one kind, and one of another."""
    database, store = Database(tmp_path / "service.db"), Store(tmp_path / "store")
    digest = store.put(b"model")
    with database.writing() as session:
        for name, kind in (("a", "{1}"), ("b", "{1}"), ("c", "{2}")):
            session.add(Device(name=name, description="", profile={}, runs_on="{}", tuned_for=kind))
            job = Job(id=name, request_sha256="", model="m", key="", options={},
                      model_digest=digest)
            session.add(job)
            session.flush()
            for level in (0, 3):
                session.add(Task(job=job.number, device=name, level=level))
    runner = _Fleet(tmp_path)
    scheduler = Scheduler(database, store, runner,
                          signing.Signer(tmp_path / "key"), Timings(tmp_path / "timings"))
    yield scheduler, runner, database
    database.close()


def turn(scheduler):
    scheduler._collect()
    scheduler._defer()
    scheduler._start()


def states(database):
    with database.reading() as session:
        return dict(session.exec(select(Job.id, Job.state)).all())


def test_runs_are_where_their_devices_are(fleet):
    scheduler, runner, database = fleet
    runner.devices = {"{1}": 1}
    for _ in range(12):
        turn(scheduler)
    ran = [(run.task, run.request["device"], run.request["level"]) for run in runner.runs]
    assert [level for *_, level in ran].count(0) == 3 and (6, "c", 3) not in ran
    assert ran.index((2, "a", 3)) < ran.index((4, "b", 3))
    assert states(database) == dict.fromkeys("abc", State.COMPLETED), "c's tuning is for later"
    first, second = [run for run in runner.runs if run.request["level"]]
    assert first.timings is None and first.id in second.timings.decode()
    runner.devices = {"{2}": 1}  # another worker came
    for _ in range(3):
        turn(scheduler)
    assert (runner.runs[-1].task, runner.runs[-1].request["level"]) == (6, 3)
    assert not scheduler._running


def test_a_job_waits_for_the_device_that_is_there(fleet):
    scheduler, runner, database = fleet
    runner.devices = {"{1}": 0, "{2}": 0}  # all busy
    for _ in range(8):
        turn(scheduler)
    assert states(database) == dict.fromkeys("abc", State.INPROGRESS)
    runner.devices = {}  # they have gone
    turn(scheduler)
    assert states(database) == dict.fromkeys("abc", State.COMPLETED)


class _Profile:
    name = "the device"

    def tuned_for(self):
        return "{1}"


def test_an_old_file_that_is_tuned_late_stays_older(fleet, tmp_path):
    """AutoModel takes the new file, the collector removes the old one's engines, and a folder with
    all of them is read alike."""
    scheduler, runner, database = fleet
    digest = scheduler._store.put(b"the new model")
    with database.writing() as session:
        job = Job(id="new", request_sha256="", model="m", key="", options={}, model_digest=digest)
        session.add(job)
        session.flush()
        session.add(Task(job=job.number, device="a", level=0))
    for _ in range(8):
        turn(scheduler)
    runner.devices = {"{1}": 1}  # the worker of the old file's tuning comes
    for _ in range(6):
        turn(scheduler)
    with database.reading() as session:
        last = session.exec(select(Artifact).where(Artifact.device == "a").order_by(
            Artifact.id.desc())).first()
        assert last.tuned and last.model_digest != digest
        old = {row.id for row in session.exec(select(Artifact).where(
            Artifact.device == "a", Artifact.model_digest != digest))}
        assert {*retention._replaced(session, retention.Keep(engines=1))} == old
    found = artifacts.listed(database, "m", None, 100)
    ours = [one for one in found if one["device"] == "a"]
    wish = _Wish("m", _Profile(), None, None, {})
    assert _chosen(wish, ours)["model_digest"] == digest
    for one in ours:
        manifest = scheduler._store.path(one["manifest_digest"])
        (tmp_path / "run" / f"{manifest.name}.json").parent.mkdir(exist_ok=True)
        (tmp_path / "run" / f"{manifest.name}.json").write_bytes(manifest.read_bytes())
    assert _chosen(wish, fetch.in_folder(tmp_path / "run", None))["model_digest"] == digest


def test_a_model_that_is_damaged_in_the_store_is_given_up(fleet, monkeypatch):
    scheduler, runner, database = fleet

    def damaged(digest):
        raise Damaged(digest)

    monkeypatch.setattr(scheduler._store, "fetch", damaged)
    turn(scheduler)
    turn(scheduler)
    turn(scheduler)
    assert states(database) == dict.fromkeys("abc", State.FAILED) and not runner.runs
    with database.reading() as session:
        assert "damaged in the store: upload the model again" in session.get(Task, 1).reasons[0]
