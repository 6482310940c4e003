"""Weights of 4 bits in ONNX files: read as they are packed, with ONNX Runtime's results."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import torch_vulkan as tv

from onnx_models import model, tensor, weight

onnxruntime = pytest.importorskip("onnxruntime")


def wanted(made, x):
    options = onnxruntime.SessionOptions()  # or it multiplies rounded activations
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def outcomes(made, x):
    report = tv.dry_run(made, [x])
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


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
    assert outcomes(made, x) == ["read packed by 1 product"]
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
    assert outcomes(made, x) == ["read packed by 1 product"]


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
@pytest.mark.parametrize("bits, block, bias", [(4, 32, False), (4, 16, True), (8, 32, True),
                                               (2, 32, False), (2, 16, True)])
def test_matmul_nbits(bits, block, zero, bias):
    made = nbits(bits, block, zero, bias)
    x = numpy.random.default_rng(1).standard_normal((2, 7, 96)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(x), wanted(made, x), rtol=1e-4, atol=1e-4)
    assert outcomes(made, x) == ["read packed by 1 product"]
    session.refit(nbits(bits, block, zero, bias, seed=5))
    numpy.testing.assert_allclose(session(x), wanted(nbits(bits, block, zero, bias, seed=5), x),
                                  rtol=1e-4, atol=1e-4)


def by_the_quantizer(made, **arguments):
    """A file as onnxruntime.quantization writes it."""
    module = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    quantizer = module.MatMulNBitsQuantizer(made, block_size=32, **arguments)
    quantizer.process()
    return quantizer.model.model


def with_empty_blocks(rng, shape):
    """A block, and a column, of zeros."""
    matrix = rng.standard_normal(shape).astype("float32")
    matrix[:32, 3] = 0
    matrix[:, 7] = 0
    return matrix


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits, form", [(4, "QOperator"), (8, "QOperator"), (4, "QDQ")])
def test_what_the_quantizer_writes(symmetric, bits, form):
    """Its scales are negative where the largest magnitude is positive, and 0 of blocks of zeros."""
    form = pytest.importorskip("onnxruntime.quantization").QuantFormat[form]
    rng = numpy.random.default_rng(3)
    made = by_the_quantizer(
        model([helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
              [tensor("x", [3, 64])], [tensor("y", None)],
              [weight("w", with_empty_blocks(rng, (64, 48)))], opset=21),
        bits=bits, is_symmetric=symmetric, quant_format=form)
    (scales,) = [numpy_helper.to_array(t) for t in made.graph.initializer if "scales" in t.name]
    assert (scales <= 0).any(), "or it would show nothing"
    x = rng.standard_normal((3, 64)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(x), wanted(made, x), rtol=1e-4, atol=1e-4)
    assert outcomes(made, x) == ["read packed by 1 product"]


@pytest.mark.parametrize("symmetric", [True, False])
def test_embeddings_of_the_quantizer(symmetric):
    """GatherBlockQuantized with elements of ONNX's own types of 4 bits."""
    rng = numpy.random.default_rng(4)
    table = with_empty_blocks(rng, (96, 50)).T.copy()
    made = by_the_quantizer(
        model([helper.make_node("Gather", ["w", "x"], ["y"], "lookup")],
              [tensor("x", [2, 3], TensorProto.INT64)], [tensor("y", None)],
              [weight("w", table)], opset=21),
        bits=4, is_symmetric=symmetric, op_types_to_quantize=("Gather",),
        quant_axes=(("Gather", 1),))
    assert [node.op_type for node in made.graph.node] == ["GatherBlockQuantized"]
    ids = numpy.array([[3, 7, 0], [49, 3, 31]])
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(ids), wanted(made, ids), rtol=1e-6, atol=1e-6)
    assert held_bytes(session) <= 50 * 96 // 2 + 50 * 3 * 5  # the table stays packed


@pytest.mark.parametrize("width", [96, 80, 67])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
def test_gathered_blocks(dtype, zero, width):
    """Whole blocks, a last one that is cut, and rows that do not end with a byte."""
    rng = numpy.random.default_rng(5)
    low = -8 if dtype == TensorProto.INT4 else 0
    weights = [four_bits("w", rng.integers(low, low + 16, (13, width)), dtype),
               weight("s", rng.uniform(-0.1, 0.1, (13, 3)).astype("float32"))]
    if zero:
        weights.append(four_bits("z", rng.integers(low, low + 16, (13, 3)), dtype))
    node = helper.make_node("GatherBlockQuantized", ["w", "x", "s", *(["z"] if zero else [])],
                            ["y"], "lookup", domain="com.microsoft", block_size=32)
    made = model([node], [tensor("x", [4], TensorProto.INT64)], [tensor("y", None)], weights,
                 opset=21, domains=["com.microsoft"])
    ids = numpy.array([12, 0, 5, 5])
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session(ids), wanted(made, ids), rtol=1e-6, atol=1e-6)


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
