"""From a model to an engine that runs, and what the service says of itself."""

import json
import os
import pty
import subprocess
import sys

import numpy
import pytest

import torch_vulkan as tv
from torch_vulkan._service.commands.cli_show import printable
from torch_vulkan.service import ServiceError

from workloads.service_process import SCRIPT, SECONDS, environment, layers, one_node


def run(service, *arguments, key=None):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          timeout=SECONDS, env=environment(
                              TORCH_VULKAN_SERVICE=service.url,
                              TORCH_VULKAN_API_KEY=key or service.key))
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_model_becomes_an_engine_that_gives_its_results(service, client, tmp_path):
    model, expected = layers([8, 5])
    job = client.submit(model, ["lavapipe"], name="team/linear", options={"optimization_level": 1})
    assert "".join(client.logs(job["id"], follow=True)).endswith(" s\n")
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "COMPLETED"
    first, task = job["tasks"]
    assert [(t["device"], t["level"], t["attempt"]) for t in job["tasks"]] == [
        ("lavapipe", 0, 1), ("lavapipe", 1, 1)]
    artifact, untuned = client.artifacts("team/linear")
    assert artifact["engine_digest"] == task["artifact"] and artifact["tuned"]
    assert untuned["engine_digest"] == first["artifact"] and not untuned["tuned"]
    engine = tv.AutoModel.from_pretrained("team/linear", url=service.url, api_key=service.key,
                                          cache_dir=tmp_path)
    x = numpy.random.default_rng(1).standard_normal((3, 8)).astype(numpy.float32)
    numpy.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)


def test_the_same_from_the_command_line(service, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(layers([4, 3])[0])
    done = run(service, "submit", "--model", str(path), "--device", "lavapipe", "--name", "cli/net",
               "--input", "x:1..2..4x4", "--level", "0", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert job["state"] == "COMPLETED" and job["options"]["inputs"] == {"x": [[1, 2, 4], [4, 4, 4]]}
    assert "COMPLETED after" in run(service, "logs", job["id"], "--follow").stdout
    assert job["id"] in run(service, "list").stdout
    assert json.loads(run(service, "details", job["id"], "--json").stdout) == job
    assert "lavapipe" in run(service, "devices").stdout
    assert "admin" in run(service, "keys").stdout
    done = run(service, "artifacts", "--model", "cli/net", "--download", str(tmp_path / "kept"))
    assert done.returncode == 0 and job["tasks"][0]["artifact"] in done.stdout
    engine = tv.AutoModel.from_pretrained(tmp_path / "kept")
    assert engine.run({"x": numpy.ones((2, 4), numpy.float32)})["y"].shape == (2, 3)
    with pytest.raises(ValueError, match="batch|s0|4"):
        engine.run({"x": numpy.ones((5, 4), numpy.float32)})
    (kept,) = (tmp_path / "kept").glob("*.vke")
    done = run(service, "publish", "--engine", str(kept), "--name", "cli/again", "--source",
               str(path), "--json")
    (artifact,) = json.loads(done.stdout)
    assert artifact["published_by"] and artifact["model_digest"] == job["model_digest"]
    assert artifact["options"] == {}
    done = run(service, "publish", "--engine", str(kept), "--name", "cli/again", "--level", "1",
               "--precision", "float32", "--input", "x:1..2..4x4", "--json")
    assert json.loads(done.stdout)[0]["options"] == {
        "optimization_level": 1, "enabled_precisions": [],
        "inputs": {"x": [[1, 2, 4], [4, 4, 4]]}}
    assert run(service, "keys", "--signing").stdout.startswith("ed25519:")
    assert run(service, "webhooks", "--secret").stdout.startswith("whsec_")


def test_long_work_has_bars_on_a_terminal(service, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(layers([4, 3])[0])
    for arguments, says in (
            (("submit", "--model", path, "--device", "lavapipe", "--name", "cli/bars", "--level",
              "1", "--wait"), ("upload [####", "tasks [....", "] 0 of 2", "] 2 of 2")),
            (("artifacts", "--model", "cli/bars", "--download", tmp_path), ("lavapipe [####",))):
        terminal, end = pty.openpty()
        try:
            done = subprocess.run(
                [sys.executable, SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=end,
                timeout=SECONDS, env=environment(TORCH_VULKAN_SERVICE=service.url,
                                                 TORCH_VULKAN_API_KEY=service.key))
            drawn = os.read(terminal, 1 << 16).decode()
        finally:
            os.close(terminal), os.close(end)
        assert done.returncode == 0, drawn
        assert all(text in drawn for text in says) and drawn.endswith("\n"), drawn


def test_what_the_command_line_refuses(service, tmp_path):
    done = run(service, "submit", "--model", str(tmp_path / "none.onnx"), "--device", "lavapipe")
    assert done.returncode == 1 and "none.onnx" in done.stderr
    done = run(service, "submit", "--model", str(tmp_path / "none.onnx"), "--device", "lavapipe",
               "--json")
    assert "none.onnx" in json.loads(done.stdout)["error"]["message"]
    (tmp_path / "net.onnx").write_bytes(layers([4, 3])[0])
    done = run(service, "submit", "--model", str(tmp_path / "net.onnx"), "--device", "lavapipe",
               "--name", "bad name")
    assert done.returncode == 1 and "want 1 to 4 names with '/' between them" in done.stderr
    done = run(service, "details", "no-such-job", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["code"] == "not_found"
    done = run(service, "list", key="tv_000000000000_" + "a" * 43)
    assert done.returncode == 1 and "API key" in done.stderr
    path = tmp_path / "net.onnx"
    path.write_bytes(layers([4, 3])[0])
    done = run(service, "submit", "--model", str(path), "--device", "lavapip")
    assert done.returncode == 1 and "did you mean 'lavapipe'" in done.stderr
    assert run(service, "submit", "--model", str(path), "--device", "lavapipe", "--input",
               "x").returncode == 2


@pytest.mark.parametrize("model, reason", [
    (layers([8, 5])[0][:100], "damaged"),
    (b"no model at all", "ONNX"),
    (one_node("Unique"), "the_node"),
    (one_node("NoSuchOperator"), "NoSuchOperator"),
], ids=["cut", "text", "refused", "unknown"])
def test_a_model_that_cannot_be_built_fails_with_its_reasons(client, model, reason):
    job = client.submit(model, ["lavapipe"], name="bad")
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "FAILED"
    task, tuned = job["tasks"]
    assert tuned["state"] == "STOPPED" and tuned["reasons"] == ["there is no engine to tune"]
    assert reason in " ".join(task["reasons"]) and task["artifact"] is None
    assert task["attempt"] == 1, "a model's fault is no reason to try again"


def test_a_job_id_stands_for_one_job(client):
    model, _ = layers([8, 6])
    jobs = [client.submit(model, ["lavapipe"], name="same", job_id="once") for _ in range(3)]
    assert len({job["number"] for job in jobs}) == 1
    client.wait("once", SECONDS)
    assert client.submit(model, ["lavapipe"], name="same", job_id="once")["state"] == "COMPLETED"
    assert len(client.artifacts("same")) == 2, "one for each task"
    with pytest.raises(ServiceError, match="another request") as refused:
        client.submit(model, ["lavapipe"], name="other", job_id="once")
    assert (refused.value.status, refused.value.code) == (409, "conflict")


def test_a_device_that_is_not_here_gets_an_engine_that_is_not_tuned(service, client, tmp_path):
    here = next(device for device in client.devices() if device["name"] == "lavapipe")
    there = {**here["profile"], "name": "Far GPU", "driver_id": 4, "type": "discrete",
             "host_pointers": False, "max_shared_bytes": 16384}
    client.add_device("far-gpu", there)
    model, _ = layers([8, 7])
    job = client.submit(model, ["far-gpu"], name="team/far", options={"optimization_level": 3})
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "COMPLETED", job
    (artifact,) = client.artifacts("team/far")
    assert (artifact["tuned"], artifact["level"]) == (False, 0)
    arguments = {"url": service.url, "api_key": service.key, "cache_dir": tmp_path}
    with pytest.raises(tv.UnsupportedError, match="far-gpu"):
        tv.AutoModel.from_pretrained("team/far", **arguments)
    # The same model for two devices: the one that fits is taken.
    job = client.submit(model, ["far-gpu", "lavapipe"], name="team/far")
    assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"
    assert sorted(a["level"] for a in client.artifacts("team/far")) == [0, 0, 0, 3]
    engine = tv.AutoModel.from_pretrained("team/far", **arguments)
    assert engine.run({"x": numpy.ones((1, 8), numpy.float32)})["y"].shape == (1, 7)
    with pytest.raises(ServiceError, match="machine"):
        client.add_device("lavapipe", there)
    with pytest.raises(ServiceError, match="subgroup_size"):
        client.add_device("bad", {**there, "subgroup_size": "many"})


def test_a_terminal_gets_no_commands_from_a_model():
    assert printable("a\x1b[2J\u202eb\tc\r\nd") == "a\ufffd[2J\ufffdb\tc\ufffd\nd"


def test_lists_are_pages(client):
    model, _ = layers([8, 5])
    for i in range(3):
        client.submit(model, ["lavapipe"], name="pages", job_id=f"page-{i}")
    first = client.list(limit=2)
    assert [job["id"] for job in first] == ["page-2", "page-1"]
    assert client.list(limit=1, before=first[-1]["number"])[0]["id"] == "page-0"
    client.wait("page-2", SECONDS)
    found = client.list(state="COMPLETED")
    assert found and all(job["state"] == "COMPLETED" for job in found)
    assert "page-2" not in [job["id"] for job in client.list(state="FAILED")]
