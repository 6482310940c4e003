"""Tasks on a Ray cluster of several nodes: where they run, and a cluster that goes away."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile

import numpy
import pytest

import torch_vulkan as tv
from torch_vulkan._service.running import devices

from workloads.cut_line import CutLine
from workloads.postgresql import free_port
from workloads.service_process import (
    NO_ENVIRONMENT,
    OWN_PYTHON,
    ROOT,
    SANDBOX,
    SCRIPT,
    Service,
    environment,
    layers,
    long_model,
)
from workloads.service_process import until as patient

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(bool(NO_ENVIRONMENT), reason=NO_ENVIRONMENT)]
SECONDS = 600  # Ray starts some twenty processes
TOKEN = "a token of the tests alone, for the loopback"


class Nodes:
    """The cluster's processes; `kill` is kill -9 of all of them."""

    def __init__(self, port: int, resources):
        said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [OWN_PYTHON, ROOT / "workloads" / "ray_nodes.py", str(port),
             *(json.dumps(held) for held in resources)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            start_new_session=True,
            env=environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN))
        if not any(line == "ready\n" for line in self._process.stdout):
            said.seek(0)
            raise AssertionError(f"no cluster: {said.read()[-3000:]}")

    def end(self, node: int) -> None:
        self._process.stdin.write(f"end {node}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "ended\n"

    def kill(self) -> None:
        for process in _of_session(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait(timeout=SECONDS)


def _of_session(session: int) -> list[int]:
    """Ray's processes have groups of their own, in the session of the one that started them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session:
                    found.append(int(name))
            except (ProcessLookupError, PermissionError):
                continue
    return found


def until(condition, what):
    return patient(condition, what, SECONDS)


def serving(folder, port):
    return Service(folder, *SANDBOX, "--runner", "ray", "--ray-address",
                   f"http://127.0.0.1:{port}", python=OWN_PYTHON,
                   variables={"RAY_AUTH_TOKEN": TOKEN})


def test_tasks_run_where_their_devices_are(tmp_path, client):
    """Two nodes: one with the device, one with another that nothing else has."""
    here = next(d for d in client.devices() if d["name"] == "lavapipe")
    there = {**here["profile"], "name": "Far GPU", "driver_id": 4, "type": "discrete",
             "host_pointers": False}
    ran = subprocess.run([OWN_PYTHON, SCRIPT, "resources"], capture_output=True, text=True,
                         env=environment(), timeout=SECONDS)
    own = json.loads(ran.stdout)
    assert own[devices.resource(here["tuned_for"])] >= 1
    port = free_port()
    service = serving(tmp_path / "data", port)
    nodes = None
    try:
        service.start()
        with service.client() as asking:
            # The cluster is not there yet: nothing is lost.
            asking.submit(layers([8, 5])[0], ["lavapipe"], name="ray/net", job_id="early",
                          options={"optimization_level": 1})
            assert "cluster" in until(lambda: asking.details("early")["waits_for"], "a reason")
            far = asking.add_device("far-gpu", there)
            nodes = Nodes(port, [own, {devices.resource(far["tuned_for"]): 1}])
            assert asking.wait("early", SECONDS)["state"] == "COMPLETED"
            until(lambda: asking.details("early")["tasks"][1]["state"] == "COMPLETED", "tuning")
            assert [a["tuned"] for a in asking.artifacts("ray/net")] == [True, False]
            assert "built:" in "".join(asking.logs("early"))
            # That a node has the device is known a while after it came.
            for job, size in (("early-far", 7), ("far", 6)):
                asking.submit(layers([8, size])[0], ["far-gpu"], name="ray/far", job_id=job,
                              options={"optimization_level": 1})
                until(lambda job=job: asking.details(job)["tasks"][1]["state"] == "COMPLETED",
                      "a run on that node")
            job = asking.details("far")
            assert [t["later"] for t in job["tasks"]] == [False, False], "a node has the device"
            assert "the device is not here" in "".join(asking.logs("far")), "but only says so"
        engine = tv.AutoModel.from_pretrained("ray/net", url=service.url, api_key=service.key,
                                              cache_dir=tmp_path / "cache")
        x = numpy.ones((2, 8), numpy.float32)
        numpy.testing.assert_allclose(engine.run({"x": x})["y"], layers([8, 5])[1](x), rtol=1e-5,
                                      atol=1e-6)
        until(lambda: not [*(service.folder / "store" / "runs").iterdir()], "runs leave nothing")
    finally:
        service.stop()
        if nodes:
            nodes.close()
    assert "Traceback" not in service.log.read_text()


def test_a_cluster_that_goes_away_takes_nothing_along(tmp_path, client):
    here = next(d for d in client.devices() if d["name"] == "lavapipe")
    resources = [{devices.resource(here["tuned_for"]): 1}]
    port = free_port()
    nodes = Nodes(port, resources)
    with CutLine(port) as line:
        service = serving(tmp_path / "data", line.port)
        try:
            service.start()
            with service.client() as asking:
                asking.submit(long_model(), ["lavapipe"], name="long", job_id="long")
                # Its run is there: what is cut while it is sent is another attempt.
                until(lambda: "".join(asking.logs("long")).count("reading the model") == 2,
                      "tuning")
                line.cut()  # the cluster is well, and cannot be asked
                until(lambda: asking.details("long")["waits_for"], "a reason")
                line.mend()
                until(lambda: not asking.details("long")["waits_for"], "that it goes on")
                assert asking.details("long")["tasks"][1]["attempt"] == 1
                nodes.kill()
                assert "cluster" in until(lambda: asking.details("long")["waits_for"], "a reason")
                assert asking.details("long")["tasks"][1]["state"] == "INPROGRESS"
                nodes = Nodes(port, resources)  # another one, which knows nothing
                until(lambda: asking.details("long")["tasks"][1]["attempt"] == 2, "a second run")
                asking.cancel("long")
                # The times that the first run left may have ended the second one before.
                assert asking.wait("long", SECONDS)["state"] in ("STOPPED", "COMPLETED")
                asking.submit(layers([8, 5])[0], ["lavapipe"], name="next", job_id="next")
                assert asking.wait("next", SECONDS)["state"] == "COMPLETED"
        finally:
            service.stop()
            nodes.close()
    assert "Traceback" not in service.log.read_text()
