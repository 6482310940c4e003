"""vkexec on ONNX files: build, save, load, refit, profile, compare; against ONNX Runtime."""

import json
import os
import re
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from workloads.networks import NETWORKS  # noqa: E402
from workloads.patience import patience  # noqa: E402

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
ONCE = ("--iterations=1", "--duration=0", "--warmUp=0", "--builderOptimizationLevel=0")


def run(*arguments, code=0, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True, text=True,
                          timeout=patience(120), env={**environment, **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def small_model(seed=0, last="Softmax"):
    """x [batch, 7] → relu(x w + b) v → softmax; every tensor between has a name."""
    rng = np.random.default_rng(seed)
    weights = {"w": rng.normal(size=(7, 11)), "b": rng.normal(size=11),
               "v": rng.normal(size=(11, 5))}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], "first"),
             helper.make_node("Add", ["product", "b"], ["layer/sum:0"], "bias"),
             helper.make_node("Relu", ["layer/sum:0"], ["hidden"], "act"),
             helper.make_node("MatMul", ["hidden", "v"], ["scores"], "second"),
             helper.make_node(last, ["scores"], ["y"], "last")]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(value.astype("float32"), name)
         for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def every_tensor(model, x):
    """What ONNX Runtime computes, by tensor."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    known = {output.name for output in model.graph.output}
    for node in model.graph.node:
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output
                                  if name not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x}),
                    strict=True))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with small.onnx, other.onnx (other weights), x.npy and ref/NAME.npy."""
    folder = tmp_path_factory.mktemp("onnx")
    onnx.save(small_model(), folder / "small.onnx")
    onnx.save(small_model(seed=1), folder / "other.onnx")
    x = np.random.default_rng(2).normal(size=(3, 7)).astype("float32")
    np.save(folder / "x.npy", x)
    (folder / "ref").mkdir()
    np.save(folder / "ref" / "x.npy", x)
    for name, value in every_tensor(small_model(), x).items():
        np.save(folder / "ref" / (re.sub(r"[^A-Za-z0-9.-]", "_", name) + ".npy"), value)
    return folder


def check(files, folder, seed=0, **tolerance):
    want = every_tensor(small_model(seed), np.load(files / "x.npy"))["y"]
    np.testing.assert_allclose(np.load(folder / "y.npy"), want,
                               **(tolerance or {"rtol": 1e-5, "atol": 1e-6}))


def test_build_save_load_refit(files, tmp_path):
    text = run(f"--onnx={files}/small.onnx", "--minShapes=x:1x7", "--optShapes=x:2x7",
               "--maxShapes=x:4x7", f"--saveEngine={tmp_path}/small.vke", "--noCache",
               f"--loadInputs=x:{files}/x.npy", f"--exportOutput={tmp_path}/a/", *ONCE)
    check(files, tmp_path / "a")
    assert "opset 18" in text and "3 weights" in text and "#" not in text.split("\r")[0].split(
        "===")[1], "no progress bar where there is no terminal"
    info = tv.Engine.load(tmp_path / "small.vke").info()
    assert [(s["min"], s["opt"], s["max"]) for s in info["symbols"]] == [(1, 2, 4)]
    run(f"--loadEngine={tmp_path}/small.vke", f"--refitFromOnnx={files}/other.onnx", *ONCE,
        f"--loadInputs=x:{files}/x.npy", f"--exportOutput={tmp_path}/b/")
    check(files, tmp_path / "b", seed=1)
    assert "got 5, want 1 to 4" in run(f"--loadEngine={tmp_path}/small.vke", "--shapes=x:5x7",
                                       *ONCE, code=1)


def test_a_progress_bar_on_terminals(files):
    """While building, and erased then."""
    import pty
    leader, follower = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    with subprocess.Popen([VKEXEC, f"--onnx={files}/small.onnx", "--skipInference", "--noCache",
                           "--builderOptimizationLevel=0"], stdout=follower, stderr=follower,
                          env=environment) as process:
        os.close(follower)
        text = b""
        try:
            while chunk := os.read(leader, 65536):
                text += chunk
        except OSError:  # the other end is closed
            pass
        assert process.wait(60) == 0, text
    os.close(leader)
    parts = text.split(b"\r")
    bars = [i for i, part in enumerate(parts) if part.startswith(b"Building [")]
    assert bars and parts[bars[-1] + 1] == b" " * 79, "erased in the end"
    assert b"PASSED" in text


def test_stripped_and_refitted(files, tmp_path):
    run(f"--onnx={files}/small.onnx", f"--saveEngine={tmp_path}/s.vke", "--stripWeights",
        "--skipInference", "--builderOptimizationLevel=0")
    assert tv.Engine.load(tmp_path / "s.vke").missing_weights()
    run(f"--loadEngine={tmp_path}/s.vke", f"--onnx={files}/other.onnx", "--refit", *ONCE,
        f"--loadInputs=x:{files}/x.npy", f"--exportOutput={tmp_path}/out/")
    check(files, tmp_path / "out", seed=1)


@pytest.mark.parametrize("flag, tolerance", [("--fp16", 5e-3), ("--bf16", 4e-2)])
def test_low_precision(files, tmp_path, flag, tolerance):
    run(f"--onnx={files}/small.onnx", flag, *ONCE, f"--loadInputs=x:{files}/x.npy",
        f"--exportOutput={tmp_path}/", f"--exportLayerInfo={tmp_path}/layers.json")
    check(files, tmp_path, atol=tolerance, rtol=0)
    want = every_tensor(small_model(), np.load(files / "x.npy"))["y"]
    assert np.abs(np.load(tmp_path / "y.npy") - want).max() > 1e-6, "not in low precision"


def test_through_staging_memory(files, tmp_path):
    """As on a GPU, where inputs and outputs are copied."""
    run(f"--onnx={files}/small.onnx", *ONCE, f"--loadInputs=x:{files}/x.npy", "--streams=2",
        f"--exportOutput={tmp_path}/", TORCH_VULKAN_STAGING="1")
    check(files, tmp_path)


def test_timings_are_kept(tmp_path):
    """What was measured for one engine is known for the next."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv")]
    graph = helper.make_graph(
        nodes, "conv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 7, 7])],
        [numpy_helper.from_array(np.ones((8, 4, 3, 3), "float32"), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
              tmp_path / "conv.onnx")
    flags = [f"--onnx={tmp_path}/conv.onnx", "--skipInference", "--noCache",
             f"--timingCacheFile={tmp_path}/timings.json", "--builderOptimizationLevel=3"]
    timed, known = re.search(r"(\d+) candidates timed, (\d+) known", run(*flags)).groups()
    assert int(timed) > 0 and int(known) == 0
    again = re.search(r"(\d+) candidates timed, (\d+) known", run(*flags)).groups()
    assert again == ("0", timed)


def test_the_cache_is_used(files, tmp_path):
    flags = [f"--onnx={files}/small.onnx", "--skipInference", f"--cacheDir={tmp_path}/cache",
             "--builderOptimizationLevel=0"]
    assert "Engine built" in run(*flags)
    assert "Engine taken from the cache" in run(*flags)
    assert "Engine built" in run(*flags, "--noCache")


@pytest.mark.parametrize("arguments, message", [
    (["--shapes=z:1x7"], "z"),
    (["--shapes=x:1x8"], "x"),
])
def test_wrong_shapes(files, arguments, message):
    assert message in run(f"--onnx={files}/small.onnx", *arguments, *ONCE, code=1)


def test_an_input_that_sets_a_shape(tmp_path):
    """It is given when the engine is built."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["r"]),
         helper.make_node("Relu", ["r"], ["y"])],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6]),
              helper.make_tensor_value_info("shape", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
              tmp_path / "net.onnx")
    np.save(tmp_path / "shape.npy", np.array([3, -1], "int64"))
    text = run(f"--onnx={tmp_path}/net.onnx", f"--constants=shape:{tmp_path}/shape.npy", *ONCE)
    assert "Output binding y with dimensions 3x4" in text
    given = f"--loadInputs=shape:{tmp_path}/shape.npy"
    text = run(f"--onnx={tmp_path}/net.onnx", given, f"--exportOutput={tmp_path}/y.json", *ONCE)
    assert "Output binding y with dimensions 3x4" in text
    assert 'Input "shape" sets shapes: the engine is for the value of' in text
    # The raw bytes of a file have no sizes; the hint says what to write.
    (tmp_path / "shape.bin").write_bytes(np.array([3, -1], "int64").tobytes())
    hint = 'Input "shape" sets shapes: --constants=shape:FILE.npy gives its value'
    for flags in ((), (f"--loadInputs=shape:{tmp_path}/shape.bin",)):
        assert hint in run(f"--onnx={tmp_path}/net.onnx", *flags, *ONCE, code=1)


def test_what_cannot_be_built(tmp_path):
    model = small_model(last="Softmax")
    model.graph.node[2].op_type, model.graph.node[4].op_type = "NoSuchThing", "Another"
    (tmp_path / "bad.onnx").write_bytes(model.SerializeToString())
    text = run(f"--onnx={tmp_path}/bad.onnx", "--skipInference", code=1)
    assert "NoSuchThing" in text and "Another" in text, "all of it at once"
    assert "tv.onnx.compile and ONNX Runtime's provider leave such nodes to ONNX Runtime" in text
    (tmp_path / "none.onnx").write_text("not an ONNX file")
    assert "none.onnx" in run(f"--onnx={tmp_path}/none.onnx", code=1)


def test_compare(files, tmp_path):
    flags = [f"--onnx={files}/small.onnx", f"--ref={files}/ref", "--builderOptimizationLevel=0"]
    text = run("compare", *flags)
    for name in ("product", "layer/sum:0", "hidden", "scores", "y"):
        assert re.search(rf"\] {name} +3x\d+ .*ok", text), name
    ref = tmp_path / "ref"
    ref.mkdir()
    for file in (files / "ref").iterdir():
        np.save(ref / file.name, np.load(file))
    hidden = np.load(ref / "hidden.npy")
    hidden[1, 4] += 0.5
    np.save(ref / "hidden.npy", hidden)
    text = run("compare", flags[0], f"--ref={ref}", flags[2], code=1)
    assert re.search(r"\] hidden +3x11 +5.000e-01 .*differs", text)
    assert "1 of 33 elements are outside" in text and "the worst is element 15" in text
    assert "made by aten::relu" in text and not re.search(r"\] scores", text)
    assert re.search(r"\] y +3x5 .*ok", text), "the outputs are compared all the same"
    assert "differs" not in run("compare", flags[0], f"--ref={ref}", flags[2], "--outputsOnly")
    assert "differs" not in run("compare", flags[0], f"--ref={ref}", flags[2], "--atol=0.6")
    (ref / "x.npy").unlink()
    assert "input 'x': there is no" in run("compare", flags[0], f"--ref={ref}", flags[2], code=1)


def exported(model, x, path):
    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(pixel_values=x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Positional(), (x,), path, dynamo=True, verbose=False,
                          input_names=["x"], output_names=["y"])


def check_network(path, x, folder):
    """What vkexec wrote into the folder against what ONNX Runtime computes."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x.numpy()})[:1]
    # As docs/models.md compares networks: tens of layers, summed in other orders.
    np.testing.assert_allclose(np.load(folder / "y.npy"), want, rtol=1e-3, atol=1e-4)
    return want


def test_a_network(tmp_path):
    """ResNet-50, reduced, as torch.onnx exports it, is what ONNX Runtime computes: built, saved,
    loaded, and with the weights of another file."""
    network = NETWORKS["ResNet-50"]
    model, inputs = network.make(True), network.inputs(2, True, 0)
    (x,) = inputs.values()
    exported(model, x, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", x.numpy())
    run(f"--onnx={tmp_path}/net.onnx", *ONCE, f"--loadInputs=x:{tmp_path}/x.npy",
        f"--exportOutput={tmp_path}/", f"--exportProfile={tmp_path}/profile.json",
        f"--exportGraph={tmp_path}/net.svg", f"--exportLayerInfo={tmp_path}/layers.json",
        f"--saveEngine={tmp_path}/net.vke")
    want = check_network(tmp_path / "net.onnx", x, tmp_path)
    _, *layers = json.loads((tmp_path / "profile.json").read_text())
    nodes = onnx.load(tmp_path / "net.onnx", load_external_data=False).graph.node
    convolutions = [node for node in nodes if node.op_type == "Conv"]
    assert len(layers) >= len(convolutions) > 5
    assert all(layer["medianMs"] >= 0 for layer in layers)
    modules = {path for path, _ in model.named_modules(prefix="model")}
    named = {layer["modulePath"] for layer in layers} & modules
    assert len(named) > len(convolutions) / 2, "names lead back to the module path"
    assert len(json.loads((tmp_path / "layers.json").read_text())["Layers"]) == len(layers)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.95
    exported(model, x, tmp_path / "other.onnx")
    run(f"--loadEngine={tmp_path}/net.vke", f"--refitFromOnnx={tmp_path}/other.onnx", *ONCE[:3],
        f"--loadInputs=x:{tmp_path}/x.npy", f"--exportOutput={tmp_path}/refitted/")
    other = check_network(tmp_path / "other.onnx", x, tmp_path / "refitted")
    assert np.abs(want - other).max() > 1e-2
