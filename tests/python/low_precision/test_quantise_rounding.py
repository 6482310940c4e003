"""QuantizeLinear rounds the quotient that float32 has, where that lies beside a half, too."""

import numpy as np
import pytest
import torch

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")
TYPES = {"UINT8": (np.uint8, 3), "INT8": (np.int8, -7)}


def model(scale, zero, dtype):
    scalar = onnx.numpy_helper.from_array
    return onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])], "quantise",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
        [onnx.helper.make_tensor_value_info("y", getattr(onnx.TensorProto, dtype), ["n"])],
        [scalar(scale, "scale"), scalar(zero, "zero")]),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def beside_halves(scale, random):
    """Numbers whose quotient is a half, or the next numbers to one, and others of every size."""
    with np.errstate(over="ignore"):
        middle = ((np.arange(-300, 300) + 0.5) * np.float64(scale)).astype(np.float32)
        near = [middle]
        for towards in (-np.inf, np.inf):
            at = middle
            for _ in range(4):
                at = np.nextafter(at, np.float32(towards))
                near.append(at)
        sizes = random.standard_normal(5000) * 10.0 ** random.integers(-45, 38, 5000)
        plain = (random.standard_normal(5000) * 90 * scale).astype(np.float32)
        special = np.array([0.0, -0.0, np.inf, -np.inf, 3e38, 1e-45], np.float32)
        return np.concatenate([*near, sizes.astype(np.float32), plain, special])


@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_are_rounded_as_float32_has_them(dtype, tactics_of):
    random = np.random.default_rng(torch.initial_seed() % 2**32)
    numpy, zero = TYPES[dtype]
    for scale in [*(10.0 ** random.uniform(-5, 3, 5)), 0.1, 1 / 3, 1e-30, 3e-39, 2e30]:
        scale = np.float32(scale)
        x = beside_halves(scale, random)
        session = tv.onnx.compile(model(scale, numpy(zero), dtype).SerializeToString(),
                                  fallback="none", optimization_level=0)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(x / scale) + np.float32(zero)
        wanted = np.clip(steps, np.iinfo(numpy).min, np.iinfo(numpy).max).astype(numpy)
        got = session.run(None, {"x": x})[0]
        wrong = got != wanted
        # Devices may take denormal numbers for 0.
        flushed = (np.abs(x) < 2**-126) | (scale < 2**-126)
        assert not (wrong & ~flushed).any(), (scale, x[wrong & ~flushed][:5])
