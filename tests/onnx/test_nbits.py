"""Weights of 4 bits in ONNX files: read as they are packed, with ONNX Runtime's results."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

import torch_vulkan as tv

from onnx_models import model, tensor, weight

onnxruntime = pytest.importorskip("onnxruntime")


def wanted(made, x):
    options = onnxruntime.SessionOptions()  # or it multiplies rounded activations
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def fates(made, x):
    report = tv.dry_run(made, [x])
    return [tensor["fate"] for engine in report.engines for tensor in engine["quantised"]]


def held_bytes(session):
    (engine,) = session.engines
    return sum(numpy.prod(w["shape"]) * numpy.dtype(w["dtype"]).itemsize
               for w in engine.info()["weights"])


def four_bits(name, values, dtype):
    return helper.make_tensor(name, dtype, values.shape, values.flatten().tolist())


def blocks_of_rows(axis, dtype, zero, seed=0):
    """MatMul, or Gemm with transB, with a dequantised matrix in blocks of 16."""
    rng = numpy.random.default_rng(seed)
    steps, columns = 64, 24
    low, high = (-8, 8) if dtype == TensorProto.INT4 else (0, 16)
    shape, scales = ((steps, columns), (4, columns)) if axis == 0 else (
        (columns, steps), (columns, 4))
    weights = [four_bits("w", rng.integers(low, high, shape), dtype),
               weight("s", rng.uniform(0.01, 0.1, scales).astype("float32"))]
    if zero:
        weights.append(four_bits("z", rng.integers(low, high, scales), dtype))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", *(["z"] if zero else [])], ["d"],
                              "dequantize", axis=axis, block_size=16),
             helper.make_node("MatMul", ["x", "d"], ["y"], "product") if axis == 0 else
             helper.make_node("Gemm", ["x", "d"], ["y"], "product", transB=1)]
    return model(nodes, [tensor("x", [5, steps])], [tensor("y", [5, columns])], weights, opset=21)


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("axis", [0, 1])
def test_dequantize_linear(axis, dtype, zero):
    made = blocks_of_rows(axis, dtype, zero)
    onnx.checker.check_model(made)
    x = numpy.random.default_rng(1).standard_normal((5, 64)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(x), wanted(made, x), rtol=1e-5, atol=1e-5)
    assert fates(made, x) == ["read packed by 1 product"]
    # 64 x 24 elements in half a byte each, and 96 scales.
    assert held_bytes(session) <= 64 * 24 // 2 + 96 * 4 + 96


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
def test_scales_of_channels(dtype):
    rng = numpy.random.default_rng(2)
    low = -8 if dtype == TensorProto.INT4 else 0
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "dequantize", axis=1),
             helper.make_node("MatMul", ["x", "d"], ["y"], "product")]
    made = model(nodes, [tensor("x", [2, 3, 32])], [tensor("y", None)],
                 [four_bits("w", rng.integers(low, low + 16, (32, 10)), dtype),
                  weight("s", rng.uniform(0.01, 0.1, 10).astype("float32"))], opset=21)
    x = rng.standard_normal((2, 3, 32)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(x), wanted(made, x), rtol=1e-5, atol=1e-5)
    assert fates(made, x) == ["read packed by 1 product"]


def nbits(bits, block, zero, bias, seed=0, steps=96, columns=20):
    rng = numpy.random.default_rng(seed)
    blocks = steps // block
    weights = [weight("b", rng.integers(0, 256, (columns, blocks, block * bits // 8))
                      .astype("uint8")),
               weight("s", rng.uniform(0.01, 0.1, columns * blocks).astype("float32"))]
    if zero:
        size = columns * ((blocks * bits + 7) // 8)
        weights.append(weight("z", rng.integers(0, 256, size).astype("uint8")))
    if bias:
        weights.append(weight("c", rng.standard_normal(columns).astype("float32")))
    inputs = ["x", "b", "s", "z" if zero else "", "", "c" if bias else ""]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("MatMulNBits", inputs, ["y"], "product", domain="com.microsoft",
                            K=steps, N=columns, bits=bits, block_size=block)
    return model([node], [tensor("x", [2, 7, steps])], [tensor("y", [2, 7, columns])], weights,
                 domains=["com.microsoft"])


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("bits, block, bias", [(4, 32, False), (4, 16, True), (8, 32, True)])
def test_matmul_nbits(bits, block, zero, bias):
    made = nbits(bits, block, zero, bias)
    x = numpy.random.default_rng(1).standard_normal((2, 7, 96)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(x), wanted(made, x), rtol=1e-4, atol=1e-4)
    assert fates(made, x) == ["read packed by 1 product"]
    session.refit(nbits(bits, block, zero, bias, seed=5))
    numpy.testing.assert_allclose(session(x), wanted(nbits(bits, block, zero, bias, seed=5), x),
                                  rtol=1e-4, atol=1e-4)


def changed(made, **attributes):
    (node,) = made.graph.node
    for attribute in node.attribute:
        if attribute.name in attributes:
            attribute.i = attributes[attribute.name]
    return made


@pytest.mark.parametrize("attributes, message", [
    ({"K": 0}, "must be positive"), ({"N": 1 << 40}, "less than 2\\^31"),
    ({"block_size": -16}, "must be positive"),
    ({"N": 21}, "B has 960 elements of uint8, want 1008"),
    ({"bits": 3}, "weights of 3 bits"), ({"block_size": 36}, "rows of 96 elements in blocks of 36"),
])
def test_what_is_refused(attributes, message):
    with pytest.raises((ValueError, tv.UnsupportedError), match=message):
        tv.onnx.compile(changed(nbits(4, 32, True, False), **attributes), fallback="none")


def test_sizes_whose_product_overflows():
    size = 1 << 30
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], "product", K=size, N=size,
                            bits=8, block_size=32, domain="com.microsoft")
    made = model([node], [tensor("x", [1, size])], [tensor("y", None)],
                 [weight("w", numpy.zeros((1, 1, 1), "uint8")),
                  weight("s", numpy.ones(1, "float32"))])
    with pytest.raises(ValueError, match="more than 2\\^40 elements"):
        tv.onnx.compile(made, fallback="none")
