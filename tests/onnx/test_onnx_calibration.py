"""tv.calibrate of ONNX files, whose caches go by the file's names of tensors, and int8 by them."""

import json
import subprocess
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import torch_vulkan as tv

import onnx_models
from onnx_models import model, tensor, weight
from workloads.patience import patience

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
INT8 = {"enabled_precisions": {torch.float32, torch.int8}, "optimization_level": 0,
        "fallback": "none"}
NAMES = {"x", "r", "f"}


def network(seed=0):
    """Conv, padded on one side, Relu, MatMul of rows of a batch, Gemm."""
    rng = numpy.random.default_rng(seed)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[0, 1, 1, 0]),
             helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("MatMul", ["r", "m"], ["p"], "matmul"),
             helper.make_node("GlobalAveragePool", ["p"], ["g"], "pool"),
             helper.make_node("Flatten", ["g"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "v"], ["y"], "gemm", transB=1)]
    weights = [weight(name, (rng.standard_normal(shape) / 3).astype("float32"))
               for name, shape in (("w", (6, 3, 2, 2)), ("b", (6,)), ("m", (9, 5)), ("v", (4, 6)))]
    return model(nodes, [tensor("x", ["n", 3, 7, 9])], [tensor("y", None)], weights)


def data(count=3, seed=1):
    rng = numpy.random.default_rng(seed)
    return [rng.standard_normal((2, 3, 7, 9)).astype("float32") for _ in range(count)]


def test_names_are_those_of_the_file():
    found = tv.calibrate(network(), data(), "minmax")
    assert {*found.scales} == NAMES
    most = max(numpy.abs(x).max() for x in data())
    assert found.amax["x"] == pytest.approx(most)
    values = tv.onnx.compile(with_outputs(network(), ["r", "f"]), fallback="none")
    for i, name in enumerate(("r", "f")):
        want = max(numpy.abs(values.run(None, {"x": x})[i + 1]).max() for x in data())
        assert found.amax[name] == pytest.approx(want, rel=1e-5)


def with_outputs(made, names):
    made.graph.output.extend(tensor(name, None) for name in names)
    return made


def steps(x, scale, least=-128):
    return numpy.clip(numpy.round(x / numpy.float32(scale)), least, 127) * numpy.float32(scale)


def by_rows(w):
    scale = numpy.abs(w.reshape(len(w), -1)).max(1) / 127
    return steps(w, scale.reshape(-1, *[1] * (w.ndim - 1)), -127)


def in_int8(made, scales, x):
    """What int8 is to give, layer by layer, in PyTorch."""
    w, b, m, v = (torch.from_numpy(numpy_helper.to_array(t).copy())
                  for t in made.graph.initializer)
    w, v = (torch.from_numpy(by_rows(t.numpy())) for t in (w, v))
    m = torch.from_numpy(by_rows(m.numpy().T).T.copy())
    x = torch.nn.functional.pad(torch.from_numpy(steps(x, scales["x"])), (1, 0, 0, 1))
    r = torch.nn.functional.conv2d(x, w, b).relu()
    p = torch.from_numpy(steps(r.numpy(), scales["r"])) @ m
    f = p.mean((2, 3))
    return (torch.from_numpy(steps(f.numpy(), scales["f"])) @ v.T).numpy()


def test_int8():
    made, x = network(), data(1, 7)[0]
    calibration = tv.calibrate(made, data())
    got = tv.onnx.compile(made, calibration=calibration, **INT8)(x)
    floats = tv.onnx.compile(made, optimization_level=0, fallback="none")(x)
    want = in_int8(made, calibration.scales, x)
    # A sum that rounds otherwise is a step away where it lies on a half.
    step = max(calibration.scales.values())
    numpy.testing.assert_allclose(got, want, atol=step)
    assert not numpy.allclose(got, floats, rtol=1e-4, atol=1e-4)
    numpy.testing.assert_allclose(got, floats, atol=0.05 * numpy.abs(floats).max())


def test_a_cache_of_tensorrts(tmp_path):
    """Which has every tensor of the network, and some of none."""
    path = tmp_path / "trt.cache"
    path.write_text("TRT-8601-EntropyCalibration2\nx: 3ca10000\nc: 3c900000\nr: 3c900000\n"
                    "(Unnamed Layer* 3) [Shuffle]_output: 3c800000\nf: 3c100000\ny: 0\n")
    x = data(1, 7)[0]
    got = tv.onnx.compile(network(), calibration=path, **INT8)(x)
    scales = tv.Calibration.load(path).scales
    numpy.testing.assert_allclose(got, in_int8(network(), scales, x), atol=0.02)


def test_batches_by_name_and_missing_ones():
    want = tv.calibrate(network(), data(1), "minmax")
    assert tv.calibrate(network(), [{"x": data(1)[0]}], "minmax") == want
    with pytest.raises(ValueError, match="a batch has no input 'x'; it has \\['z'\\]"):
        tv.calibrate(network(), [{"z": data(1)[0]}])


def test_more_values_than_inputs():
    x = data(1)[0]
    with pytest.raises(ValueError, match="a batch has 2 values, the model 1 inputs: x"):
        tv.calibrate(network(), [(x, x)])


def test_partial_files_of_other_external_data(tmp_path):
    def saved(seed):
        path = tmp_path / "net.onnx"
        (tmp_path / "weights").unlink(missing_ok=True)
        onnx.save(network(seed), path, save_as_external_data=True, location="weights",
                  size_threshold=0)
        return str(path)

    def interrupted():
        yield from data(2)
        raise KeyboardInterrupt

    cache = tmp_path / "net.cache"
    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(saved(0), interrupted(), "minmax", cache)
    with pytest.raises(ValueError, match="is of another model or version, or of other options"):
        tv.calibrate(saved(1), data(), "minmax", cache)
    assert {*tv.calibrate(saved(0), data(), "minmax", cache).scales} == NAMES


def test_a_node_that_no_engine_takes():
    made = onnx_models.linear()[0]
    made.graph.node.insert(0, helper.make_node("Nothing", ["x0"], ["x"], "nothing"))
    made.graph.input[0].name = "x0"
    with pytest.raises(tv.UnsupportedError, match="nothing"):
        tv.calibrate(made, [numpy.zeros((2, 8), "float32")])


def by_vkexec(folder, made, x, cache, products):
    """What vkexec computes of the network in int8."""
    onnx.save(made, folder / "net.onnx")
    numpy.save(folder / "x.npy", x)
    arguments = [f"--onnx={folder / 'net.onnx'}", "--int8", f"--calib={cache}",
                 f"--shapes=x:{'x'.join(map(str, x.shape))}",
                 f"--loadInputs=x:{folder / 'x.npy'}",
                 f"--exportOutput={folder / 'out.json'}", "--builderOptimizationLevel=0",
                 "--iterations=1", "--duration=0", "--warmUp=0"]
    done = subprocess.run([VKEXEC, *arguments], capture_output=True, text=True,
                          timeout=patience(120))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (f"Calibration: scales for {products} of {products} products and convolutions"
            in done.stdout)
    assert "Precision: FP32+INT8" in done.stdout
    (output,) = json.loads((folder / "out.json").read_text())
    return numpy.array(output["values"])


def test_vkexec(tmp_path):
    """It computes what Python's engine does."""
    made, x = network(), data(1, 7)[0]
    cache = tmp_path / "net.cache"
    tv.calibrate(made, data(), "mse", cache)
    got = by_vkexec(tmp_path, made, x, cache, 3)
    want = tv.onnx.compile(made, [x], calibration=cache, **INT8)(x)
    numpy.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)


def two_products():
    rng = numpy.random.default_rng(5)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
             helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Gemm", ["r", "v", "b"], ["y"], "second", transB=1)]
    weights = [weight(name, rng.standard_normal(shape).astype("float32") / 4)
               for name, shape in (("w", (16, 12)), ("v", (5, 12)), ("b", (5,)))]
    return model(nodes, [tensor("x", ["n", 16])], [tensor("y", None)], weights)


def smoothed(x, w, largest, alpha):
    """x @ w with both in int8, smoothed (Xiao et al., SmoothQuant, equation 4): w has a row for
    each channel of x."""
    factors = largest ** alpha * numpy.abs(w).max(1) ** (alpha - 1)
    factors[largest == 0] = 1
    scale = (largest / factors).max() / 127
    return steps(x / factors, scale) @ by_rows((w * factors[:, None]).T).T


def test_smooth_quant(tmp_path):
    """By the cache it holds in the session and in vkexec, and helps where channels differ."""
    made, rng = two_products(), numpy.random.default_rng(9)
    w, v, b = (numpy_helper.to_array(t) for t in made.graph.initializer)
    batches = [rng.standard_normal((32, 16)).astype("float32") for _ in range(3)]
    for batch in batches:
        batch[:, 3] *= 60
    x, cache = batches[0][:7], tmp_path / "smooth.cache"
    calibration = tv.calibrate(made, batches, smooth_quant=0.5, cache=cache)
    largest = {name: numpy.array(most, "float32")
               for name, most in calibration.channel_amax.items()}
    assert {*largest} == {"x", "r"}
    numpy.testing.assert_allclose(largest["x"], numpy.abs(numpy.concatenate(batches)).max(0),
                                  rtol=1e-6)
    got = tv.onnx.compile(made, calibration=cache, **INT8)(x)
    hidden = numpy.maximum(smoothed(x, w, largest["x"], 0.5), 0)
    want = smoothed(hidden, v.T, largest["r"], 0.5) + b
    exact = numpy.maximum(x @ w, 0) @ v.T + b
    # A value that rounds otherwise is a step away where it lies on a half.
    numpy.testing.assert_allclose(got, want, atol=0.02 * numpy.abs(exact).max())
    by_file = by_vkexec(tmp_path, made, x, cache, 2)
    numpy.testing.assert_allclose(by_file.reshape(got.shape), got, rtol=1e-5, atol=1e-5)

    plain = tv.calibrate(made, batches, "minmax")
    without = tv.onnx.compile(made, calibration=plain, **INT8)(x)
    assert numpy.abs(got - exact).mean() < numpy.abs(without - exact).mean() / 2
