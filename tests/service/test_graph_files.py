"""Graph files in the compile service: submitted, refused, found by tv.AutoModel, registered."""

import json
import os
import struct
import subprocess
import sys

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._service.client import fetch
from torch_vulkan._service.files import graph_files, onnx_files

from workloads.service_process import SCRIPT, SECONDS, environment, layers

safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
QUICK = {"optimization_level": 0}


class Net(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


ROWS = [tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8), name="x")]


@pytest.fixture
def path(tmp_path):
    tv.export_graph(Net(), tmp_path / "net.vkg", ROWS)
    return tmp_path / "net.vkg"


@pytest.fixture
def there(service, tmp_path):
    return {"url": service.url, "api_key": service.key, "cache_dir": tmp_path / "cache"}


def right(engine, net, rows=3):
    x = torch.randn(rows, 8)
    (got,) = engine.run([x]).values()
    with torch.no_grad():
        torch.testing.assert_close(got, net.eval()(x), rtol=1e-4, atol=1e-5)


def submitted(client, path, name, **given):
    job = client.submit(path, ["lavapipe"], name=name, **{"options": QUICK, **given})
    return client.wait(job["id"], SECONDS)


def test_a_graph_file_becomes_an_engine(client, path, there):
    job = submitted(client, path, "graph/net")
    assert job["state"] == "COMPLETED", job
    assert job["model_digest"] == fetch.model_digest(path)
    right(tv.AutoModel.from_pretrained("graph/net", **there), Net())
    right(tv.AutoModel.from_pretrained("graph/net", source=path, **there), Net(), 16)


def test_an_engine_of_a_stranger_is_loaded_with_check_addresses(client, service, path, there,
                                                               monkeypatch):
    """Sizes in a graph file are what its author says; who may publish is trusted with engines."""
    checks, made = [], tv.Engine.__init__

    def noted(self, vke, device=None, check_addresses=False):
        checks.append(check_addresses)
        made(self, vke, device, check_addresses)

    monkeypatch.setattr(tv.Engine, "__init__", noted)
    for scope, guarded in (("submit", True), ("publish", False)):
        key = client.create_key(scope, ["read", "submit", *{scope} - {"submit"}])["key"]
        with service.client(key) as other:
            job = submitted(other, path, f"graph/{scope}", options={"optimization_level": 1})
            assert job["state"] == "COMPLETED", job
            said = "".join(other.logs(job["id"]))
        assert ("loaded with check_addresses" in said) == guarded
        right(tv.AutoModel.from_pretrained(f"graph/{scope}", **there), Net())
        assert checks.pop() == guarded


def test_by_the_command(service, path, there):
    done = subprocess.run(
        [sys.executable, SCRIPT, "submit", "--model", path, "--device", "lavapipe", "--level", "0",
         "--input", "x:2..3..4x8", "--name", "graph/command", "--wait", "--json"],
        text=True, capture_output=True, timeout=SECONDS,
        env=environment(TORCH_VULKAN_SERVICE=service.url, TORCH_VULKAN_API_KEY=service.key))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["state"] == "COMPLETED"
    engine = tv.AutoModel.from_pretrained("graph/command", **there)
    right(engine, Net(), 4)
    with pytest.raises(ValueError, match="x"):
        engine.run([torch.randn(5, 8)])


def test_weights_take_the_place_of_the_files(client, path, there, tmp_path):
    weights = tmp_path / "new.safetensors"
    safetensors.save_file(Net(1).state_dict(), weights)
    assert submitted(client, path, "graph/weights", weights=weights)["state"] == "COMPLETED"
    right(tv.AutoModel.from_pretrained("graph/weights", **there), Net(1))
    safetensors.save_file({"fist.weight": torch.zeros(3)}, weights)
    job = submitted(client, path, "graph/weights", weights=weights)
    assert job["state"] == "FAILED" and "fist.weight" in json.dumps(job["tasks"]), job


def changed(path, change):
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    graph = json.loads(header["__metadata__"]["graph"])
    change(graph)
    header["__metadata__"]["graph"] = json.dumps(graph)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[end:])


@pytest.mark.parametrize(("change", "says"), [
    (lambda g: g["outputs"][0].update(value=10 ** 6), "names value 1000000"),
    (lambda g: g["nodes"][0].update(op="aten::system"), "no converter for aten::system"),
    (lambda g: g["nodes"].reverse(), "before it is made"),
    (lambda g: g["nodes"][0].update(args=[]), "[aten::"),
], ids=["id", "operator", "order", "arguments"])
def test_a_wrong_file_fails_with_the_reason(change, says, client, path):
    changed(path, change)
    job = submitted(client, path, "graph/wrong")
    assert job["state"] == "FAILED" and says in json.dumps(job["tasks"]), job


def test_tensors_alone_are_no_model(client, tmp_path):
    safetensors.save_file({"w": torch.zeros(3)}, tmp_path / "w.safetensors")
    job = submitted(client, tmp_path / "w.safetensors", "graph/none")
    assert job["state"] == "FAILED" and "is no graph file" in json.dumps(job["tasks"]), job


def test_the_engine_is_built_here_where_the_service_is_away(path, tmp_path):
    engine = tv.AutoModel.from_pretrained(
        "graph/here", url="http://127.0.0.1:9", api_key="tv_a_b", source=path,
        cache_dir=tmp_path / "cache", options=QUICK)
    right(engine, Net())


def test_which_files_are_graph_files(path, tmp_path):
    (tmp_path / "net.onnx").write_bytes(layers([8, 5])[0])
    (tmp_path / "empty").touch()
    assert graph_files.is_graph_file(path) and onnx_files.data_files(path) == []
    assert not graph_files.is_graph_file(tmp_path / "net.onnx")
    assert not graph_files.is_graph_file(tmp_path / "empty")
    assert os.path.getsize(path) < 10000


def test_a_module_is_registered_as_a_graph_file(there, monkeypatch):
    sent = []
    upload = tv.service.Client.upload
    monkeypatch.setattr(tv.service.Client, "upload", lambda self, model, *args, **given: (
        sent.append(graph_files.is_graph_file(model)), upload(self, model, *args, **given))[1])
    asking = {key: there[key] for key in ("url", "api_key")}
    job = tv.register(Net(), "graph/module", inputs={"x": torch.randn(4, 8)}, options=QUICK,
                      dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=16)}},
                      wait=True, **asking)
    assert job["state"] == "COMPLETED" and sent == [True], job
    engine = tv.AutoModel.from_pretrained("graph/module", **there)
    for rows in (1, 16):
        right(engine, Net(), rows)
    with pytest.raises(ValueError, match="what it is called with"):
        tv.register(Net(), "graph/module", **asking)
