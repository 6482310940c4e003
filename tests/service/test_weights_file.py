"""ONNX models whose weights are in a .safetensors file."""

import json
import os
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import helper, numpy_helper

import torch_vulkan as tv
from torch_vulkan._service.client import fetch
from torch_vulkan._service.files import bundle, onnx_files, weights_file

from workloads.service_process import SCRIPT, SECONDS, environment, layers

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
QUICK = {"optimization_level": 0}
X = numpy.random.default_rng(1).standard_normal((3, 8)).astype(numpy.float32)


def arrays(data):
    return {one.name: numpy_helper.to_array(one)
            for one in onnx.load_from_string(data).graph.initializer}


@pytest.fixture
def net(tmp_path):
    """A model with weights of its own, a file of others, and what these compute."""
    path, weights = tmp_path / "net.onnx", tmp_path / "other name.safetensors"
    path.write_bytes(layers([8, 6, 5], 1)[0])
    data, expected = layers([8, 6, 5], 2)
    safetensors.save_file(arrays(data), weights, {"made": "by hand"})
    return path, weights, expected


@pytest.fixture
def loaded(service, tmp_path):
    def check(name, expected):
        engine = tv.AutoModel.from_pretrained(name, url=service.url, api_key=service.key,
                                              cache_dir=tmp_path / "cache")
        numpy.testing.assert_allclose(engine.run({"x": X})["y"], expected(X), rtol=1e-5, atol=1e-6)

    return check


def put(net, weights, out, **tensors):
    if tensors:
        safetensors.save_file(tensors, weights)
    weights_file.put_into(net, weights, out)
    return onnx.load(out)


def test_weights_take_the_place_of_the_models(service, client, net, loaded, tmp_path):
    path, weights, expected = net
    job = client.submit(path, ["lavapipe"], name="st/net", options=QUICK, weights=weights)
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "COMPLETED", job
    assert job["model_digest"] != fetch.model_digest(path)
    loaded("st/net", expected)
    done = subprocess.run(
        [sys.executable, SCRIPT, "submit", "--model", path, "--weights", weights, "--device",
         "lavapipe", "--name", "st/cli", "--level", "0", "--wait", "--json"],
        capture_output=True, text=True, timeout=SECONDS, env=environment(
            TORCH_VULKAN_SERVICE=service.url, TORCH_VULKAN_API_KEY=service.key))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model_digest"] == job["model_digest"]
    loaded("st/cli", expected)
    registered = tv.register(path, "st/registered", devices=["lavapipe"], options=QUICK, wait=True,
                             weights=weights, url=service.url, api_key=service.key)
    assert registered["state"] == "COMPLETED"
    loaded("st/registered", expected)


@pytest.mark.parametrize("kind", ["inputs", "data that is gone"])
def test_a_model_without_weights_gets_them(client, net, loaded, tmp_path, kind):
    path, weights, expected = net
    model = onnx.load(path)
    if kind == "inputs":
        for one in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(
                one.name, one.data_type, ["any", *one.dims[1:]]))
        del model.graph.initializer[:]
        onnx.save(model, path)
    else:
        onnx.save(model, path, save_as_external_data=True, location="gone", size_threshold=0)
        (tmp_path / "gone").unlink()
    job = client.submit(path, ["lavapipe"], name=f"st/{kind[:4]}", options=QUICK, weights=weights)
    job = client.wait(job["id"], SECONDS)
    assert job["state"] == "COMPLETED", job
    loaded(f"st/{kind[:4]}", expected)


def no_pickle(weights, tensors):
    weights.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")


@pytest.mark.parametrize("change, says", [
    (lambda w, t: t.update(w9=t["w0"]), "no initialiser and no input 'w9'"),
    (lambda w, t: t.update(w0=t["w0"].T.copy()),
     "'w0': the weights have F32 [6, 8], and the model wants F32 [8, 6]"),
    (lambda w, t: t.update(b1=t["b1"].astype(numpy.float16)),
     "'b1': the weights have F16 [5], and the model wants F32 [5]"),
    (lambda w, t: w.write_bytes(w.read_bytes()[:-1]), "wrong data_offsets"),
    (lambda w, t: w.write_bytes(w.read_bytes()[:20]), "no .safetensors file"),
    (lambda w, t: w.write_bytes(b""), "no .safetensors file"),
    (no_pickle, "no .safetensors file"),
], ids=["name", "shape", "dtype", "cut", "header", "empty", "pickle"])
def test_wrong_weights_fail_with_the_reason(client, net, change, says):
    path, weights, _ = net
    tensors = arrays(layers([8, 6, 5], 2)[0])
    before = dict(tensors)
    change(weights, tensors)
    if any(tensors[name] is not before.get(name) for name in tensors):
        safetensors.save_file(tensors, weights)
    job = client.submit(path, ["lavapipe"], name="st/wrong", options=QUICK, weights=weights)
    job = client.wait(job["id"], SECONDS)
    (task,) = job["tasks"]
    assert job["state"] == "FAILED" and task["attempt"] == 1, job
    assert says in "\n".join(task["reasons"]), task
    assert client.artifacts("st/wrong") == []


def test_a_broken_model_with_weights_fails(client, net):
    path, weights, _ = net
    for data in (b"", b"no model", path.read_bytes()[:-3]):
        path.write_bytes(data)
        job = client.submit(path, ["lavapipe"], name="st/broken", options=QUICK, weights=weights)
        job = client.wait(job["id"], SECONDS)
        assert job["state"] == "FAILED", job
        assert "no ONNX file" in "\n".join(job["tasks"][0]["reasons"]), job


def test_bytes_and_a_file_that_is_not_there_are_refused(client, net, tmp_path):
    path, weights, _ = net
    with pytest.raises(ValueError, match="bytes"):
        client.submit(path.read_bytes(), ["lavapipe"], name="st/bytes", weights=weights)
    with pytest.raises(FileNotFoundError, match="none"):
        client.submit(path, ["lavapipe"], weights=tmp_path / "none")


def test_what_is_written_is_what_the_onnx_package_reads(net, tmp_path):
    path, weights, _ = net
    given = {"w0": numpy.full((8, 6), 3, numpy.float32), "b1": numpy.zeros(5, numpy.float32)}
    made = put(path, weights, tmp_path / "made.onnx", **given)
    onnx.checker.check_model(made)
    whole = arrays(path.read_bytes()) | given
    assert {one.name: numpy_helper.to_array(one).tolist() for one in made.graph.initializer} == {
        name: array.tolist() for name, array in whole.items()}
    assert made.graph.node == onnx.load(path).graph.node
    assert made.graph.input == onnx.load(path).graph.input


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64",
                                   "uint32", "uint64", "float16", "float64"])
def test_dtypes_and_empty_and_packed_shapes(tmp_path, dtype):
    arrays = {"full": numpy.arange(300).reshape(2, 150).astype(dtype),
              "empty": numpy.zeros((0, 3), dtype), "scalar": numpy.ones((), dtype)}
    zeros = [numpy_helper.from_array(numpy.zeros_like(one), name) for name, one in arrays.items()]
    graph = helper.make_graph([], "g", [], [], zeros)
    (tmp_path / "a.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    made = put(tmp_path / "a.onnx", tmp_path / "w", tmp_path / "b.onnx", **arrays)
    for one in made.graph.initializer:
        read = numpy_helper.to_array(one)
        assert read.dtype == arrays[one.name].dtype
        numpy.testing.assert_array_equal(read, arrays[one.name])


def test_dims_may_be_packed():
    packed = b"\x0a\x03\x02\x96\x01\x10\x01\x42\x01w"  # dims [2, 150], float32, "w"
    assert weights_file._initializer(packed, 0, len(packed)) == ("w", 1, [2, 150])


def header(text: bytes, data: bytes = bytes(8)) -> bytes:
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("text", [
    b"[]", b"{", b"\xff", b"[" * 100000, b'{"a": 1}', b'{"a": {"dtype": ["F32"]}}',
    b'{"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [true, 2], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}',
    b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}',
    b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
    b'{"a": {"dtype": "F32", "shape": [4611686018427387903, 4], "data_offsets": [0, 8]}}',
    b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": {}}',
    b'{"a": ' + b"9" * 5000 + b"}",
], ids=range(17))
def test_hostile_headers_are_refused(tmp_path, text):
    (tmp_path / "w").write_bytes(header(text))
    with pytest.raises(ValueError):
        weights_file.tensors_of(tmp_path / "w")


def test_random_damage_is_an_error_or_harmless(net, tmp_path):
    path, weights, _ = net
    rng = numpy.random.default_rng(0)
    refused = 0
    for file in (path, weights):
        good = file.read_bytes()
        for _ in range(150):
            bad = bytearray(good[:rng.integers(1, len(good) + 1)])
            for _ in range(rng.integers(1, 4)):
                bad[rng.integers(min(400, len(bad)))] = rng.integers(256)
            file.write_bytes(bad)
            (tmp_path / "out.onnx").unlink(missing_ok=True)
            try:
                weights_file.put_into(path, weights, tmp_path / "out.onnx")
            except ValueError:
                refused += 1
        file.write_bytes(good)
    assert refused


def test_large_weights_are_not_read(net, tmp_path):
    _, weights, _ = net
    text = b'{"big": {"dtype": "U8", "shape": [34359738368], "data_offsets": [0, 34359738368]}}'
    weights.write_bytes(header(text))
    os.truncate(weights, 8 + len(text) + (32 << 30))
    tensor = onnx.TensorProto(name="big", data_type=2, dims=[32 << 30])
    graph = helper.make_graph([], "g", [], [], [tensor])
    (tmp_path / "big.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    weights_file.put_into(tmp_path / "big.onnx", weights, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").stat().st_size < 1000


def test_in_a_bundle_they_are_the_last_file_under_a_name_that_is_free(net, tmp_path):
    path, weights, _ = net
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.safetensors",
              size_threshold=0)
    source = onnx_files.source_of(path, weights)
    (tmp_path / "sent").write_bytes(b"".join(source.pieces()))
    with open(tmp_path / "sent", "rb") as file:
        assert [one.role for one in bundle.entries_of(file)] == ["", bundle.WEIGHTS]
    safetensors.save_file({"w0": numpy.zeros((8, 6), numpy.float32)}, weights)  # not all of them
    (tmp_path / "sent").write_bytes(b"".join(onnx_files.source_of(path, weights).pieces()))
    with open(tmp_path / "sent", "rb") as file:
        assert [(one.name, one.role) for one in bundle.entries_of(file)] == [
            ("model.onnx", ""), ("weights.safetensors", ""),
            ("_weights.safetensors", bundle.WEIGHTS)]


@pytest.mark.parametrize("files", [
    [["a", 1, "weights"]], [["a", 1], ["b", 1, "weights"], ["c", 1, "weights"]],
    [["a", 1], ["b", 1, "link"]], [["a", 1], ["b", 1, "weights", 1]], [["a", 1], ["b", 1, []]]])
def test_headers_with_odd_weights_are_refused(tmp_path, files):
    with pytest.raises(ValueError, match="bundle"):
        bundle._parsed(json.dumps({"files": files}).encode())
