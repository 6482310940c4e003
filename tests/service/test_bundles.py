"""ONNX models whose weights are in other files: sent, kept and removed as one."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tracemalloc

import numpy
import onnx
import pytest

import torch_vulkan as tv
from torch_vulkan._service.client import fetch
from torch_vulkan._service.files import bundle, onnx_files
from torch_vulkan._service.running import local_runner
from torch_vulkan._service.running.runner import Run
from torch_vulkan._service.running.sandbox import PYTHON, Limits, bubblewrap, why_not
from torch_vulkan.service import ServiceError

from workloads.service_process import SANDBOX, SCRIPT, SECONDS, Service, environment, layers, until

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
QUICK = {"optimization_level": 0}


def external(folder, widths=(8, 5), seed=0, location="net.data"):
    """Saves layers() with all weights outside; returns the model's path and what it computes."""
    data, expected = layers(list(widths), seed)
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    (folder / location).unlink(missing_ok=True)  # or it would be appended to
    made = onnx.load_from_string(data)
    onnx.save(made, folder / "net.onnx", save_as_external_data=True, location=location,
              size_threshold=0)
    return folder / "net.onnx", expected


def raw(files, head=None):
    """A bundle without the checks of `bundle.header`."""
    text = json.dumps({"files": [[n, len(d)] for n, d in files]} if head is None else head).encode()
    return bundle.MAGIC + len(text).to_bytes(8, "little") + text + b"".join(d for _, d in files)


def stored(service):
    return {path.name for path in (service.folder / "store" / "sha256").glob("*/*")}


def unfinished(service):
    return [*(service.folder / "store" / "unfinished").iterdir()]


def check_engine(service, name, expected, cache):
    engine = tv.AutoModel.from_pretrained(name, url=service.url, api_key=service.key,
                                          cache_dir=cache)
    x = numpy.random.default_rng(1).standard_normal((3, 8)).astype(numpy.float32)
    numpy.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)


def test_a_model_with_external_data_becomes_its_engine(service, client, tmp_path):
    path, expected = external(tmp_path, location="weights/net.data")
    job = client.submit(path, ["lavapipe"], name="ext/net", options=QUICK, job_id="ext-1")
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "COMPLETED", job
    assert job["model_digest"] == fetch.model_digest(path)
    check_engine(service, "ext/net", expected, tmp_path / "cache")
    # The same again is the same job; with other data it is another model.
    assert client.submit(path, ["lavapipe"], name="ext/net", options=QUICK,
                         job_id="ext-1")["number"] == job["number"]
    old = path.read_bytes()
    path, expected = external(tmp_path, seed=1, location="weights/net.data")
    assert path.read_bytes() == old, "it differs in its data alone"
    with pytest.raises(ServiceError, match="another request"):
        client.submit(path, ["lavapipe"], name="ext/net", options=QUICK, job_id="ext-1")
    other = client.submit(path, ["lavapipe"], name="ext/net", options=QUICK)
    assert client.wait(other["id"], SECONDS)["state"] == "COMPLETED"
    assert other["model_digest"] != job["model_digest"]
    check_engine(service, "ext/net", expected, tmp_path / "cache")


def test_from_the_command_line_and_by_register(service, tmp_path):
    path, expected = external(tmp_path)
    done = subprocess.run(
        [sys.executable, SCRIPT, "submit", "--model", path, "--device", "lavapipe", "--name",
         "ext/cli", "--level", "0", "--wait", "--json"], capture_output=True, text=True,
        timeout=SECONDS, env=environment(TORCH_VULKAN_SERVICE=service.url,
                                         TORCH_VULKAN_API_KEY=service.key))
    assert done.returncode == 0, done.stderr
    check_engine(service, "ext/cli", expected, tmp_path / "cache")
    job = tv.register(path, "ext/registered", devices=["lavapipe"], options=QUICK, wait=True,
                      url=service.url, api_key=service.key)
    assert job["state"] == "COMPLETED"
    assert job["model_digest"] == json.loads(done.stdout)["model_digest"]
    (tmp_path / "net.data").unlink()
    done = subprocess.run(
        [sys.executable, SCRIPT, "submit", "--model", path, "--device", "lavapipe"],
        capture_output=True, text=True, timeout=SECONDS, env=environment(
            TORCH_VULKAN_SERVICE=service.url, TORCH_VULKAN_API_KEY=service.key))
    assert done.returncode == 1 and "net.data" in done.stderr and "Traceback" not in done.stderr


def ended(client, data, name):
    job = client.submit(data, ["lavapipe"], name=name, options=QUICK)
    return client.wait(job["id"], SECONDS)


def test_a_bundle_without_a_file_and_one_with_a_file_too_many_fail(client, tmp_path):
    path, _ = external(tmp_path)
    model, data = path.read_bytes(), (tmp_path / "net.data").read_bytes()
    for files, says in (
            ([], "net.data"), ([("other.data", data)], "net.data"),
            ([("net.data", data), ("deep/more.data", b"x")],
             "'deep/more.data' was sent, and nothing in the model names it"),
            ([("net.data", data[:-1])], "net.data")):
        job = ended(client, raw([("model.onnx", model), *files]), "ext/wrong")
        (task,) = job["tasks"]
        assert job["state"] == task["state"] == "FAILED" and task["attempt"] == 1, job
        assert says in "\n".join(task["reasons"]), task
    assert client.artifacts("ext/wrong") == []


def test_a_source_with_external_data_is_found_and_built_here(service, client, tmp_path):
    path, expected = external(tmp_path, seed=2)
    given = {"url": service.url, "api_key": service.key, "source": path, "options": QUICK}
    built = tv.AutoModel.from_pretrained("ext/source", cache_dir=tmp_path / "one", register=True,
                                         **given)
    (artifact,) = client.artifacts("ext/source")
    assert artifact["model_digest"] == fetch.model_digest(path)
    found = tv.AutoModel.from_pretrained("ext/source", cache_dir=tmp_path / "two", **given)
    x = numpy.ones((2, 8), numpy.float32)
    for engine in (built, found):
        numpy.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)
    assert not [*(tmp_path / "two").glob("*/*/built")], "it was found, and not built again"


def test_what_a_model_names_elsewhere_is_not_sent(client, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(1000))
    folder = tmp_path / "models"
    folder.mkdir()
    path, _ = external(folder)
    good = path.read_bytes()
    for name in (b"../net.x", b"/net.dat", b"n/../net"):
        path.write_bytes(good.replace(b"net.data", name))
        with pytest.raises(ValueError, match="relative"):
            client.upload(path)
    path.write_bytes(good)
    (folder / "net.data").unlink()
    (folder / "net.data").symlink_to(secret)
    with pytest.raises(ValueError, match="link"):
        client.upload(path)
    (folder / "net.data").unlink()
    with pytest.raises(FileNotFoundError, match="net.data"):
        client.upload(path)
    os.mkfifo(folder / "net.data")
    with pytest.raises(ValueError, match="regular file"):
        client.upload(path)


@pytest.mark.parametrize("files, head, says", [
    ([("../up", b"x")], None, "relative"), ([("/abs", b"x")], None, "relative"),
    ([("a/../b", b"x")], None, "relative"), ([("a\\b", b"x")], None, "relative"),
    ([("a\0b", b"x")], None, "relative"), ([("", b"x")], None, "relative"),
    ([("./a", b"x")], None, "relative"), ([("a", b"x"), ("a", b"y")], None, "twice"),
    ([("a", b"x"), ("a/b", b"y")], None, "file and a folder"),
    ([("a" * 300, b"x")], None, "too long"), ([], None, "files, want"),
    ([(f"f{i}", b"") for i in range(1001)], None, "1001 files"),
    ([], {"files": [["a", -1]]}, "header"), ([], {"files": [["a", True]]}, "header"),
    ([], {"files": [["a", 1, "link"]]}, "header"), ([], [], "header"),
    ([], {"files": [["\ud800", 1]]}, "relative"), ([], {"files": [["a", 5]]}, "cut"),
], ids=str)
def test_a_bad_bundle_is_refused_and_not_kept(service, files, head, says):
    before = stored(service)
    answer = httpx.post(f"{service.url}/v1/models", content=raw(files, head), trust_env=False,
                        headers={"Authorization": f"Bearer {service.key}"}, timeout=SECONDS)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "bad_bundle" and says in answer.text
    assert stored(service) == before and not unfinished(service)
    assert "Traceback" not in service.log.read_text()


def test_a_bundle_that_is_cut_anywhere_is_refused(service, client):
    whole = raw([("net.onnx", b"model"), ("data", b"weights")])
    before = stored(service)
    for end in range(len(bundle.MAGIC), len(whole)):
        with pytest.raises(ServiceError) as refused:
            client.upload(whole[:end])
        assert (refused.value.status, refused.value.code) == (422, "bad_bundle"), end
    with pytest.raises(ServiceError, match="its header says"):
        client.upload(whole + b"x")
    assert stored(service) == before and client.upload(whole)


def test_limits_count_all_files(tmp_path, service, client):
    path, _ = external(tmp_path)
    with open(tmp_path / "net.data", "ab") as data:
        data.truncate(9 << 20)
    with pytest.raises(ServiceError) as refused:
        client.upload(path)
    assert refused.value.status == 413 and not unfinished(service)
    own = Service(tmp_path / "data", *SANDBOX, "--key-bytes", "5000").start()
    try:
        with own.client() as asked:
            os.truncate(tmp_path / "net.data", 4000)
            assert asked.upload(path)
            os.truncate(tmp_path / "net.data", 4100)
            with pytest.raises(ServiceError, match="quota|over its"):
                asked.upload(path)
    finally:
        own.stop()


def test_killed_while_uploading_nothing_is_left(own_service):
    host, port = own_service.url.removeprefix("http://").split(":")
    begun = bundle.header([bundle.Entry("net.onnx", 10), bundle.Entry("data", 100000)])
    head = (f"POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: {len(begun) + 100010}\r\n"
            f"Authorization: Bearer {own_service.key}\r\n\r\n").encode()
    with socket.create_connection((host, int(port))) as left:
        left.sendall(head + begun + bytes(500))
        until(lambda: unfinished(own_service), "the upload")
        own_service.kill()
    own_service.start()
    assert not unfinished(own_service) and not stored(own_service)
    assert "Traceback" not in own_service.log.read_text()


def test_files_are_kept_and_removed_together(own_service, tmp_path):
    path, _ = external(tmp_path)
    with own_service.client() as client:
        job = client.submit(path, ["lavapipe"], name="ext/gc", options=QUICK)
        digest = client.wait(job["id"], SECONDS)["model_digest"]
        for each in (own_service.folder / "store" / "sha256").glob("*/*"):
            os.utime(each, (0, 0))
        client.collect()
        assert digest.removeprefix("sha256:") in stored(own_service), "a job names it"
        assert client.collect(job_days=0)["jobs"] == 1
        assert digest.removeprefix("sha256:") not in stored(own_service)
    assert not [*(own_service.folder / "runs").iterdir()], "what tasks saw"


def test_a_task_that_is_killed_is_built_again(own_service, tmp_path):
    path, expected = external(tmp_path, widths=[16 + 7 * i for i in range(60)])
    with own_service.client() as client:
        job = client.submit(path, ["lavapipe"], name="ext/killed", job_id="killed")
        until(lambda: client.details("killed")["tasks"][1]["state"] == "INPROGRESS", "tuning")
        for pid in until(own_service.children, "a task"):
            os.kill(pid, signal.SIGKILL)
        until(lambda: client.details("killed")["tasks"][1]["attempt"] > 1, "another attempt")
        client.cancel(job["id"])
        client.wait(job["id"], SECONDS)
    until(lambda: not [*(own_service.folder / "runs").iterdir()], "an empty folder")


def test_files_are_read_only_and_whole(tmp_path):
    (tmp_path / "b").write_bytes(raw([("net.onnx", b"model"), ("deep/data", b"weights")]))
    bundle.unpack(tmp_path / "b", tmp_path / "out")
    assert (tmp_path / "out/deep/data").read_bytes() == b"weights"
    for path in (tmp_path / "out/net.onnx", tmp_path / "out/deep/data"):
        assert path.stat().st_mode & 0o777 == 0o444
    with pytest.raises(FileExistsError):
        bundle.unpack(tmp_path / "b", tmp_path / "out")
    (tmp_path / "b").write_bytes(raw([("net.onnx", b"model")])[:-1])
    with pytest.raises(ValueError, match="shorter"):
        bundle.unpack(tmp_path / "b", tmp_path / "other")


def test_large_files_are_not_held_in_memory(tmp_path):
    path, _ = external(tmp_path)
    os.truncate(tmp_path / "net.data", 256 << 20)
    tracemalloc.start()
    try:
        sent = sum(map(len, onnx_files.source_of(path).pieces()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent > 256 << 20 and peak < 16 << 20


def test_only_what_is_external_is_looked_for(tmp_path):
    path, _ = external(tmp_path)
    assert onnx_files.data_files(path) == ["net.data"]
    whole = path.read_bytes()
    model = onnx.load(path, load_external_data=False)
    constant = onnx.TensorProto(name="c", data_type=1, dims=[1], data_location=1)
    constant.external_data.add(key="location", value="./then//other.data")
    inner = onnx.helper.make_graph([onnx.helper.make_node("Constant", [], ["c"], value=constant)],
                                   "inner", [], [])
    model.graph.node.append(onnx.helper.make_node("If", ["x"], ["z"], then_branch=inner))
    left = model.graph.initializer.add(name="left", data_type=1, dims=[1], raw_data=bytes(4))
    left.external_data.add(key="location", value="gone")  # and its data is inside
    path.write_bytes(model.SerializeToString())
    assert onnx_files.data_files(path) == ["net.data", "then/other.data"]
    for end in range(0, len(whole), 7):  # a damaged file is sent as it is
        path.write_bytes(whole[:end])
        assert set(onnx_files.data_files(path)) <= {"net.data"}
    assert re.fullmatch("sha256:[0-9a-f]{64}", fetch.model_digest(path))


@pytest.mark.skipif(bool(SANDBOX), reason=f"bubblewrap makes no namespaces here: "
                                          f"{why_not(bubblewrap())}")
def test_a_task_cannot_change_its_models_files(tmp_path, monkeypatch):
    (tmp_path / "stored").write_bytes(raw([("net.onnx", b"model"), ("data", b"weights")]))
    script = ("import json, os; model = json.load(open('task.json'))['model']; said = []\n"
              "for change in (lambda: os.chmod(model, 0o644), lambda: os.unlink(model),\n"
              "               lambda: open(model + '.new', 'ab')):\n"
              "    try: change(); said.append(0)\n"
              "    except OSError as error: said.append(error.errno)\n"
              "read = open(model.replace('net.onnx', 'data')).read()\n"
              "json.dump([said, read], open('result.json', 'w'))")
    monkeypatch.setattr(local_runner, "task_command", lambda *_: [PYTHON, "-c", script])
    runner = local_runner.LocalRunner(tmp_path, 1, Limits(), bubblewrap())
    try:
        runner.submit(Run("1-1", 1, tmp_path / "stored", "", {}))
        status = until(lambda: not (s := runner.status("1-1")).running and s, "its end")
        assert not status.fault, runner.logs(1, 0)
        said, read = json.loads((status.folder / "result.json").read_text())
        assert said == [errno.EROFS] * 3 and read == "weights"
    finally:
        runner.close()
