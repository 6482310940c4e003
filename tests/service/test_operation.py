"""What an operator sees and sets: metrics, logs, the audit log, rate limits, retention."""

import json
import os
import subprocess
import sys
import time

import pytest

from torch_vulkan._service import observe
from torch_vulkan._service.rate import RateLimit
from torch_vulkan.service import ServiceError

from workloads.service_process import (
    SANDBOX,
    SCRIPT,
    SECONDS,
    Service,
    environment,
    layers,
    until,
)

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not "
                                                                "installed: scripts/setup.sh")
QUICK = {"optimization_level": 0}
PREFIX = "torch_vulkan_service_"


def done(client, model, name, **given):
    job = client.submit(model, ["lavapipe"], name=name, options=QUICK, **given)
    return client.wait(job["id"], SECONDS)


def metrics(service):
    answer = httpx.get(f"{service.url}/metrics", trust_env=False,
                       headers={"Authorization": f"Bearer {service.key}"})
    assert answer.status_code == 200
    found = {}
    for family in parser.text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[(sample.name, *sorted(sample.labels.items()))] = sample.value
    return found


def test_metrics_are_those_of_what_happened(own_service):
    with own_service.client() as client:
        done(client, layers([8, 5])[0], "metrics/net")
        done(client, b"no model", "metrics/bad")
        with pytest.raises(ServiceError):
            client.details("none")
        size = client.artifacts()[0]["size_bytes"]
    found = metrics(own_service)
    for kind in ("jobs", "tasks"):
        by_state = {labels[0][1]: value for (name, *labels), value in found.items()
                    if name == PREFIX + kind}
        assert by_state == {"STARTING": 0, "INPROGRESS": 0, "COMPLETED": 1, "FAILED": 1,
                            "STOPPING": 0, "STOPPED": 0}
    assert found[(f"{PREFIX}artifact_bytes",)] == size
    assert found[(f"{PREFIX}waiting_seconds",)] == 0 < found[(f"{PREFIX}disk_free_bytes",)]
    for state in ("COMPLETED", "FAILED"):
        assert found[(f"{PREFIX}task_seconds_count", ("state", state))] == 1
    requests = {tuple(value for _, value in labels): value for (name, *labels), value
                in found.items() if name == f"{PREFIX}request_seconds_count"}
    assert requests["POST", "/v1/jobs", "201"] == 2
    assert requests["GET", "/v1/jobs/{job_id}", "404"] == 1
    assert not [route for _, route, _ in requests if "none" in route], "one series for each route"


def test_who_changed_what_is_written_down(own_service):
    with own_service.client() as client:
        reader = client.create_key("reader", ["read"])
        job = done(client, layers([8, 5])[0], "audit/net")
        with own_service.client(reader["key"]) as other:
            other.list()
            with pytest.raises(ServiceError, match="lacks"):
                other.cancel(job["id"])
        client.revoke_key(reader["id"])
        path = own_service.folder / "audit.jsonl"
        text = path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert reader["key"].split("_", 2)[2] not in text
    lines = [json.loads(line) for line in text.splitlines()]
    admin = own_service.key.split("_")[1]
    assert [(line["key"], line["method"], line["path"], line["status"]) for line in lines] == [
        (admin, "POST", "/v1/keys", 201), (admin, "POST", "/v1/models", 201),
        (admin, "POST", "/v1/jobs", 201), (reader["id"], "DELETE", f"/v1/jobs/{job['id']}", 403),
        (admin, "DELETE", f"/v1/keys/{reader['id']}", 200)]
    assert all(line["address"] == "127.0.0.1" and line["time"] > 0 for line in lines)
    assert [(line["made"], line["scopes"]) for line in lines if "made" in line] == [
        (reader["id"], ["read"])]


def test_a_key_that_is_refused_cannot_push_others_out_of_the_audit_log(tmp_path, monkeypatch):
    monkeypatch.setattr(observe, "_REFUSALS", (1e-9, 3))
    path = tmp_path / "audit.jsonl"
    audit = observe.Audit(path)
    for status in (429,) * 50 + (403,) * 50:
        audit.note(key="reader", status=status)
    audit.note(key="other", status=403)
    audit.note(key="reader", status=201)
    noted = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["key"], line["status"]) for line in noted] == [
        ("reader", 403)] * 3 + [("other", 403), ("reader", 201)]


def test_each_file_of_the_audit_log_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(observe, "_LONGEST_LOG", 200)
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.1").write_text("of before\n")
    for _ in range(2):
        audit = observe.Audit(path)
        for i in range(10):
            audit.note(key=f"key{i}", status=201)
    files = [*tmp_path.iterdir()]
    assert len(files) > 5
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.parametrize("trusted, address", [
    ((), "127.0.0.1"), (("--trusted-proxy", "10.0.0.0/8"), "127.0.0.1"),
    (("--trusted-proxy", "::1", "--trusted-proxy", "127.0.0.1"), "192.0.2.7")])
def test_only_a_trusted_proxy_says_who_the_client_is(tmp_path, trusted, address):
    service = Service(tmp_path / "data", *SANDBOX, *trusted).start()
    try:
        httpx.delete(f"{service.url}/v1/keys/none", trust_env=False, headers={
            "Authorization": f"Bearer {service.key}", "X-Forwarded-For": "192.0.2.7"})
        line = json.loads((service.folder / "audit.jsonl").read_text())
        assert line["address"] == address
    finally:
        service.stop()


def test_a_key_that_asks_too_often_is_told_when_to_come_back(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, "--rate", "0.01", "--burst", "3").start()
    try:
        with service.client() as client:
            other = client.create_key("other", ["read"])["key"]
            client.list()
            client.list()
            with pytest.raises(ServiceError, match="too many") as refused:
                client.list()
            assert (refused.value.status, refused.value.code) == (429, "too_many")
        with service.client(other) as client:
            client.list()  # each key has its own
        with httpx.Client(base_url=service.url, trust_env=False) as http:
            status = [http.get("/v1/jobs").status_code for _ in range(4)]
            assert status == [401, 401, 401, 429]
            again = http.get("/v1/jobs").headers["retry-after"]
            assert 1 <= int(again) <= 101
            assert http.get("/v1/health").status_code == 200
    finally:
        service.stop()


def test_logs_are_json_with_fields(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, "--log-json").start()
    try:
        with service.client() as client:
            done(client, layers([8, 5])[0], "log/net", job_id="logged")
        until(lambda: '"job": "logged"' in service.log.read_text(), "a line")
    finally:
        service.stop()
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    (line,) = [line for line in lines if line.get("job") == "logged"]
    assert (line["level"], line["device"], line["state"], line["attempt"]) == (
        "INFO", "lavapipe", "COMPLETED", 1)
    assert any("devices here" in line["message"] for line in lines)


def test_a_key_that_fills_the_queue_has_to_wait(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, "--tasks", "0", "--most-waiting", "2").start()
    try:
        with service.client() as client:
            model = layers([8, 5])[0]

            def submit(name, who=client):
                return who.submit(model, ["lavapipe"], name="full/net", job_id=name,
                                  options=QUICK)

            submit("first")
            submit("second")
            with pytest.raises(ServiceError, match="2 tasks of this key wait") as refused:
                submit("third")
            assert (refused.value.status, refused.value.code) == (429, "queue_full")
            assert submit("first")["state"] == "STARTING", "that job is there"
            with service.client(client.create_key("other", ["submit"])["key"]) as other:
                submit("theirs", other)
            client.cancel("first")
            client.wait("first", SECONDS)
            submit("third")
    finally:
        service.stop()


def test_buckets_are_refilled():
    now = [0.0]
    limit = RateLimit(2, 4, lambda: now[0])
    assert [limit.wait("a") for _ in range(4)] == [0] * 4
    assert limit.wait("a") == 0.5 and limit.wait("b") == 0
    now[0] = 0.5
    assert limit.wait("a") == 0 and limit.wait("a") > 0
    now[0] = 100
    assert [limit.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert RateLimit(0, 1).wait("a") == 0


def back(service, days):
    """Everything is older."""
    import sqlite3

    with sqlite3.connect(service.folder / "service.db", timeout=60) as database:
        database.execute("UPDATE job SET ended = ended - ?", (days * 86400,))
    then = time.time() - days * 86400
    for path in (service.folder / "store" / "sha256").glob("*/*"):
        os.utime(path, (then, then))


def stored(service):
    return {f"sha256:{path.name}" for path in (service.folder / "store" / "sha256").glob("*/*")}


def test_what_is_old_goes_and_what_is_named_stays(own_service):
    with own_service.client() as client:
        models = [layers([8, 5], seed)[0] for seed in range(3)]
        jobs = [done(client, model, "gc/net", job_id=f"gc-{i}") for i, model in enumerate(models)]
        lost = client.upload(b"a model that nobody compiles")
        artifacts = client.artifacts("gc/net")
        fresh = client.collect(job_days=0.5, engines=3)
        assert (fresh["jobs"], fresh["artifacts"], fresh["files"]) == (0, 0, 0)
        back(own_service, 2)
        new = client.upload(b"a model whose job is about to come")
        before = stored(own_service)
        would = client.collect(job_days=1, engines=1, dry_run=True)
        assert stored(own_service) == before and len(client.list()) == 3
        done_ = client.collect(job_days=1, engines=1)
        assert done_ == would | {"dry_run": False}
        assert (done_["jobs"], done_["artifacts"]) == (3, 2)
        # Kept: the newest engine, its manifest, and what was uploaded just now.
        assert stored(own_service) == {new, artifacts[0]["engine_digest"],
                                       artifacts[0]["manifest_digest"]}
        assert lost in before and done_["files"] == len(before) - 3 and done_["bytes"] > 0
        assert client.list() == [] and client.artifacts("gc/net") == artifacts[:1]
        assert [*(own_service.folder / "logs").iterdir()] == []
        with pytest.raises(ServiceError, match="no job"):
            client.details(jobs[0]["id"])
        # The service goes on, with numbers that were not used before.
        assert done(client, models[0], "gc/net", job_id="gc-0")["state"] == "COMPLETED"
        assert client.details("gc-0")["number"] == 4
        assert "".join(client.logs("gc-0")).count("reading the model") == 1


def test_jobs_that_are_not_told_yet_and_engines_of_other_devices_stay(own_service):
    with own_service.client() as client:
        here = client.devices()[0]["profile"]
        client.add_device("far-gpu", {**here, "name": "Far GPU", "driver_id": 4,
                                      "type": "discrete", "host_pointers": False})
        client.submit(layers([8, 5])[0], ["lavapipe", "far-gpu"], name="gc/two", job_id="told",
                      options=QUICK, notify="https://localhost/nobody")
        assert client.wait("told", SECONDS)["state"] == "COMPLETED"
        back(own_service, 2)
        removed = client.collect(job_days=1, engines=1)
        assert (removed["jobs"], removed["artifacts"], removed["files"]) == (0, 0, 0)


def test_the_command_removes_too(own_service):
    with own_service.client() as client:
        done(client, layers([8, 5])[0], "gc/command")
    back(own_service, 2)

    def run(*words):
        ran = subprocess.run([sys.executable, SCRIPT, "gc", "--job-days", "1", *words],
                             capture_output=True, text=True, timeout=SECONDS,
                             env=environment(TORCH_VULKAN_SERVICE=own_service.url,
                                             TORCH_VULKAN_API_KEY=own_service.key))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert run("--dry-run").startswith("would remove 1 jobs, 0 engines, 1 files")
    assert json.loads(run("--json"))["jobs"] == 1
    assert run().startswith("removed 0 jobs, 0 engines, 0 files")


def collecting(tmp_path, monkeypatch):
    """A store with an old file, the file, and a collector that has begun."""
    from torch_vulkan._service.jobs import retention
    from torch_vulkan._service.running.local_runner import LocalRunner
    from torch_vulkan._service.running.sandbox import Limits
    from torch_vulkan._service.storage.database import Database
    from torch_vulkan._service.storage.store import Store

    monkeypatch.setattr(retention, "_FIRST_S", 0)
    store = Store(tmp_path / "store")
    old = store.put(b"old")
    os.utime(store.path(old), (0, 0))
    collector = retention.Collector(Database(tmp_path / "service.db"), store,
                                    LocalRunner(tmp_path, 1, Limits(), None), retention.Keep())
    collector.start()
    return store, old, collector


def test_the_service_collects_by_itself(tmp_path, monkeypatch):
    store, old, collector = collecting(tmp_path, monkeypatch)
    until(lambda: not store.has(old), "a collection")
    collector.stop()
    assert not collector.is_alive()


class Clock:
    """`time` as retention has it, which can be set."""

    def __init__(self, now: float):
        self.now, self.passed = now, 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.passed

    def passes(self, seconds: float, and_is_set: float = 0) -> None:
        self.passed += seconds
        self.now += seconds + and_is_set


def test_a_clock_that_was_set_makes_nothing_old(tmp_path, monkeypatch):
    from torch_vulkan._service.jobs import retention
    from torch_vulkan._service.storage.database import Database
    from torch_vulkan._service.storage.tables import Job, State

    day = 86400
    clock = Clock(time.time())
    monkeypatch.setattr(retention, "time", clock)
    database = Database(tmp_path / "service.db")
    watched = retention._Clock(database)
    clock.passes(day)
    assert watched.moved() == ""
    clock.passes(day, and_is_set=400 * day)
    assert "set forward by 34560000 s" in watched.moved()
    clock.passes(day, and_is_set=-400 * day)
    assert "set back by" in watched.moved()
    clock.passes(day)
    assert watched.moved() == ""
    with database.writing() as session:
        session.add(Job(id="later", request_sha256="", model="m", model_digest="d", options={},
                        key="k", state=State.COMPLETED, created=clock.now + 2 * day))
    clock.passes(day)
    assert "the newest job is of 86400 s later" in watched.moved()
    clock.passes(day)
    assert watched.moved() == ""


def test_nothing_is_collected_after_the_clock_was_set(tmp_path, monkeypatch, caplog):
    from torch_vulkan._service.jobs import retention

    monkeypatch.setattr(retention._Clock, "moved", lambda self: "the clock was set")
    store, old, collector = collecting(tmp_path, monkeypatch)
    until(lambda: "waits for a day: the clock was set" in caplog.text, "the log")
    collector.stop()
    assert store.has(old)


def test_a_name_is_an_address_to_listen_on(tmp_path):
    service = Service(tmp_path / "data", "--no-sandbox", "--host", "localhost").start()
    service.stop()
    assert "may attack this machine" not in service.log.read_text()
    ran = subprocess.run([sys.executable, SCRIPT, "serve", "--data", str(tmp_path / "other"),
                          "--no-sandbox", "--host", "no-such-host.invalid"], capture_output=True,
                         text=True, timeout=SECONDS)
    assert ran.returncode == 1 and "cannot listen on no-such-host.invalid" in ran.stderr
    assert "Traceback" not in ran.stderr
