"""What a task can reach."""

import json
import os
import shutil
import subprocess

import onnx
import pytest

import torch_vulkan as tv
import torch_vulkan.service.local_runner as local_runner
from torch_vulkan.service.runner import Run
from torch_vulkan.service.sandbox import PYTHON, Limits, boxed, bubblewrap, environment, why_not
from torch_vulkan.service.store import Store

from workloads.service_process import layers, until

needs_bwrap = pytest.mark.skipif(why_not(shutil.which("bwrap")) != "",
                                 reason=why_not(shutil.which("bwrap")))


def sandboxed(folder, script):
    out = folder / "out"
    out.mkdir(exist_ok=True)
    model = folder / "model"
    model.write_bytes(b"model")
    return subprocess.run(boxed(["/bin/sh", "-c", script], bubblewrap(), model, out),
                          capture_output=True, text=True, timeout=60, env=environment())


@needs_bwrap
@pytest.mark.parametrize("script", [
    "cat {folder}/secret", "ls {folder}/other", "echo x > {folder}/model",
    "echo x > /usr/x", "cat /etc/passwd", "ls /root /home",
    "cat /proc/1/environ | grep -q TORCH_VULKAN_API_KEY",
    "exec 3<>/dev/tcp/127.0.0.1/{port}", "mount -t tmpfs none /mnt",
], ids=["file", "folder", "model", "system", "etc", "home", "environment", "network", "mount"])
def test_a_task_cannot(tmp_path, service, monkeypatch, script):
    monkeypatch.setenv("TORCH_VULKAN_API_KEY", service.key)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "other").mkdir()
    script = script.format(folder=tmp_path, port=service.url.rpartition(":")[2])
    done = sandboxed(tmp_path, f"bash -c '{script}'")
    assert done.returncode != 0 and "secret" not in done.stdout
    assert (tmp_path / "model").read_bytes() == b"model"


@needs_bwrap
def test_a_task_can_read_the_model_and_write_to_its_folder(tmp_path):
    done = sandboxed(tmp_path, f"cat {tmp_path}/model > {tmp_path}/out/copy && ls /dev")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "copy").read_bytes() == b"model"


@needs_bwrap
def test_only_its_own_processes_are_seen(tmp_path):
    done = sandboxed(tmp_path, "ls -d /proc/[0-9]* | wc -l")
    assert int(done.stdout) < 6


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_what_a_task_leaves_is_taken_only_if_it_is_a_file(tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "engine.vke"
    {"link": lambda: made.symlink_to(tmp_path / "secret"), "folder": made.mkdir,
     "fifo": lambda: os.mkfifo(made)}[kind]()
    store = Store(tmp_path / "store")
    with pytest.raises(ValueError, match="no regular file"):
        store.take(made)
    assert [*store.unfinished.iterdir()] == []


def ended(runner, run):
    runner.submit(run)
    return until(lambda: not (s := runner.status(run.id)).running and s, "its end")


@pytest.mark.parametrize("limit, script, says, again", [
    ({"memory_bytes": 1 << 30}, "bytearray(3 << 30)", "its log says more", True),
    ({"cpu_seconds": 1}, "while True: pass", "more than 1 s of the CPU", False),
    ({"seconds": 1}, "import time; time.sleep(100)", "longer than 1 s", False),
    ({}, "import os; os.kill(os.getpid(), 9)", "signal 9", True),
], ids=["memory", "cpu", "seconds", "killed"])
def test_a_run_has_limits(tmp_path, monkeypatch, limit, script, says, again):
    monkeypatch.setattr(local_runner, "task_command", lambda *_: [PYTHON, "-c", script])
    runner = local_runner.LocalRunner(tmp_path, 1, Limits(**limit), None)
    status = ended(runner, Run("1-1", 1, tmp_path / "model", "", {}))
    assert says in status.fault and status.again == again
    assert ("MemoryError" in runner.logs(1, 0).decode()) == ("memory_bytes" in limit)
    runner.forget("1-1")
    assert [*(tmp_path / "runs").iterdir()] == []


def built(tmp_path, client, model, limits):
    """What a build without a sandbox says of a model."""
    profile = next(d for d in client.devices() if d["name"] == "lavapipe")["profile"]
    runner = local_runner.LocalRunner(tmp_path, 1, limits, None)
    status = ended(runner, Run("1-1", 1, model, "", {"device": "lavapipe", "profile": profile,
                                                 "level": 0, "options": {}}))
    return json.loads((status.folder / "result.json").read_text())


def test_a_model_cannot_read_the_files_beside_it(tmp_path, client):
    """Other people's models lie there."""
    made = onnx.load_from_string(layers([8, 5])[0])
    onnx.save(made, tmp_path / "model", save_as_external_data=True, location="other",
              size_threshold=0)
    assert (tmp_path / "other").stat().st_size >= 8 * 5 * 4
    assert tv.onnx.compile(tmp_path / "model"), "it is a model that could be read"
    result = built(tmp_path, client, tmp_path / "model", Limits())
    assert result["state"] == "FAILED" and "external data" in result["reasons"][0].lower()


def test_an_engine_that_is_too_large_is_the_models_fault(tmp_path, client):
    model = tmp_path / "model"
    model.write_bytes(layers([8, 5])[0])
    result = built(tmp_path, client, model, Limits(output_bytes=10000))
    assert result["state"] == "FAILED" and "10000 bytes" in result["reasons"][0]
