"""The runner for Ray against an imitation of Ray's Jobs API; test_cluster.py has the real one."""

import json

import pytest

from torch_vulkan._service.errors import Away
from torch_vulkan._service.running import devices, node
from torch_vulkan._service.running.runner import Run
from torch_vulkan._service.running.sandbox import Limits
from torch_vulkan._service.storage.store import Store

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
ray_runner = pytest.importorskip("torch_vulkan._service.running.ray_runner")
KIND = '{"name": "gpu"}'


class Ray:
    """A cluster's head: answers as Ray 2.60 does."""

    def __init__(self):
        self.jobs, self.stopped, self.nodes, self.status = {}, [], [], 200

    def __call__(self, request):
        path = request.url.path
        if self.status != 200:
            return httpx.Response(self.status, text="not now")
        if path == "/api/v0/nodes":
            return httpx.Response(200, json={"result": True, "data": {"result": {
                "result": self.nodes}}})
        name = path.removeprefix("/api/jobs/")
        if request.method == "POST" and not name:
            asked = json.loads(request.content)
            self.jobs[asked["submission_id"]] = asked | {"status": "PENDING", "logs": ""}
            return httpx.Response(200, json={"submission_id": asked["submission_id"]})
        if not name:
            return httpx.Response(200, json=[*self.jobs.values()])
        name, _, what = name.partition("/")
        if name not in self.jobs:
            return httpx.Response(404, text=f"Job {name} does not exist")
        if what == "stop":
            self.stopped.append(name)
            self.jobs[name]["status"] = "STOPPED"
            return httpx.Response(200, json={"stopped": True})
        if what == "logs":
            return httpx.Response(200, json={"logs": self.jobs[name]["logs"]})
        if request.method == "DELETE":
            del self.jobs[name]
            return httpx.Response(200, json={"deleted": True})
        return httpx.Response(200, json=self.jobs[name])


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A head, and what makes a runner that asks it."""
    head, real = Ray(), httpx.Client
    monkeypatch.setattr(ray_runner, "_POLL_S", 0)
    monkeypatch.setattr(ray_runner, "_NODES_S", 0)
    monkeypatch.setattr(ray_runner.httpx, "Client", lambda **given: real(
        **given, transport=httpx.MockTransport(head)))

    def make():
        return ray_runner.RayRunner(
            tmp_path, 1, Limits(), ray_runner.Cluster("http://head", "token",
                                                      Store(tmp_path / "store").url, False),
            lambda: [KIND])

    return head, make


def started(runner, level=3):
    run = Run("7-1", 7, None, "sha256:" + "a" * 64, {"level": level}, KIND if level else "",
              b"times" if level else None)
    runner.submit(run)
    return f"tv-{runner._name}-7-1"


def test_devices_are_resources_of_nodes_that_are_alive(cluster):
    head, make = cluster
    runner = make()
    assert dict(runner.tuners()) == {}
    mine = {"resources_total": {devices.resource(KIND): 2.0, "CPU": 4.0}}
    head.nodes = [{"state": "ALIVE", **mine}, {"state": "DEAD", **mine},
                  {"state": "ALIVE", "resources_total": None}, {"state": "ALIVE", **mine}]
    assert dict(runner.tuners()) == {KIND: 4}


def test_a_run_asks_for_its_device_and_leaves_nothing(cluster, tmp_path):
    head, make = cluster
    runner = make()
    name = started(runner)
    job = head.jobs[name]
    assert job["entrypoint_resources"] == {devices.resource(KIND): 1}
    assert job["entrypoint"].split()[-3:] == ["node", runner._cluster.store, name]
    there = tmp_path / "store" / "runs" / name
    assert (there / "timings.json").read_bytes() == b"times"
    assert json.loads((there / "task.json").read_text())["digest"] == "sha256:" + "a" * 64
    assert runner.status("7-1").running
    job |= {"status": "RUNNING", "logs": "one\n"}
    assert runner.status("7-1").running
    job |= {"status": "SUCCEEDED", "logs": "one\ntwo\n"}
    (there / "result.json").write_text("{}")
    (there / node.OUTCOME).write_text('{"fault": "", "again": false}')
    status = runner.status("7-1")
    assert not status.running and not status.fault
    assert (status.folder / "result.json").read_text() == "{}"
    assert runner.logs(7, 0) == b"one\ntwo\n"
    assert runner.status("7-1") is status, "it has ended"
    runner.forget("7-1")
    assert not head.jobs and not there.exists() and not status.folder.exists()
    started(runner, level=0)
    assert "entrypoint_resources" not in [*head.jobs.values()][0]


@pytest.mark.parametrize("change, fault, again, lost", [
    (None, "does not know the run", False, True),
    ({"status": "FAILED", "message": "node died"}, "node died", True, False),
    ({"status": "STOPPED"}, "somebody stopped", True, False),
    ({"status": "SUCCEEDED"}, "no outcome", True, False)], ids=["lost", "died", "stopped", "none"])
def test_how_a_run_may_end(cluster, change, fault, again, lost):
    head, make = cluster
    runner = make()
    name = started(runner)
    head.jobs[name].update(change) if change else head.jobs.clear()
    status = runner.status("7-1")
    assert fault in status.fault and (status.again, status.lost) == (again, lost)


def test_what_the_node_says_of_a_run(cluster, tmp_path):
    head, make = cluster
    runner = make()
    name = started(runner)
    head.jobs[name]["status"] = "SUCCEEDED"
    (tmp_path / "store" / "runs" / name / node.OUTCOME).write_text(
        '{"fault": "the process was ended by signal 9", "again": true}')
    status = runner.status("7-1")
    assert status.fault == "the process was ended by signal 9" and status.again


@pytest.mark.parametrize("status, says", [(401, "RAY_AUTH_TOKEN"), (403, "RAY_AUTH_TOKEN"),
                                          (500, "status 500"), (503, "status 503")])
def test_a_cluster_that_does_not_answer_is_away(cluster, status, says):
    head, make = cluster
    runner = make()
    started(runner)
    head.status = status
    for ask in (lambda: runner.status("7-1"), runner.tuners, lambda: started(runner)):
        with pytest.raises(Away, match=says):
            ask()
    runner.forget("7-1")
    runner.close()


def test_what_was_cancelled_is_stopped_when_the_cluster_can_be_asked(cluster):
    head, make = cluster
    runner = make()
    name = started(runner)
    head.status = 500
    runner.cancel("7-1")
    with pytest.raises(Away):
        runner.status("7-1")
    head.status = 200
    assert runner.status("7-1").running and head.stopped == [name]
    assert runner.status("7-1").fault == "cancelled"


def test_what_an_earlier_process_left_is_stopped_first(cluster, tmp_path):
    head, make = cluster
    runner = make()
    name = started(runner)
    head.jobs |= {"other": {"submission_id": "other", "status": "RUNNING",
                            "metadata": {"torch_vulkan_service": "another"}},
                  "users": {"submission_id": "users", "status": "RUNNING", "metadata": None}}
    again = make()
    again.tuners()
    assert head.stopped == [name], "of this service alone"
    again.tuners()
    assert head.stopped == [name] and head.jobs.keys() == {"other", "users"}, "then removed"
    assert not [*(tmp_path / "store" / "runs").iterdir()]


def test_a_submission_without_an_answer_is_stopped(cluster, monkeypatch):
    head, make = cluster
    runner = make()
    runner.tuners()
    runner.submit(Run("6-1", 6, None, "sha256:" + "b" * 64, {"level": 0}))
    ask = runner._ask

    def unheard(method, path, **given):
        ask(method, path, **given)
        raise Away("cluster", "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_ask", unheard)
        with pytest.raises(Away):
            started(runner)
    late = head.jobs.pop(f"tv-{runner._name}-7-1")
    runner.tuners()
    assert head.stopped == []
    head.jobs[late["submission_id"]] = late  # the cluster had not begun it yet
    runner.tuners()
    runner.tuners()
    assert head.stopped == [late["submission_id"]]
    assert [*head.jobs] == [f"tv-{runner._name}-6-1"], "what is known goes on"
