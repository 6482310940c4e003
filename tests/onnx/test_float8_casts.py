"""Casts to float8 and QuantizeLinear to it, between nodes of a file, with the results of onnx's
reference evaluator."""

import numpy
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import torch_vulkan as tv

from onnx_models import model, tensor, weight

TYPES = {TensorProto.FLOAT8E4M3FN: 448.0, TensorProto.FLOAT8E4M3FNUZ: 240.0,
         TensorProto.FLOAT8E5M2: 57344.0, TensorProto.FLOAT8E5M2FNUZ: 57344.0}


def values(most):
    """Of every exponent, ties, zeros, and what is beyond the range."""
    rng = numpy.random.default_rng(0)
    some = rng.choice([-1, 1], 400) * rng.uniform(1, 2, 400) * 2.0 ** rng.integers(-20, 17, 400)
    edges = numpy.array([0, most, -most, most * 1.02, most * 1.5, -most * 4, 1e30, numpy.nan])
    ties = (numpy.arange(64) + 0.5) / 16
    return numpy.concatenate([some, edges, ties]).astype("float32")


def compare(nodes, x, constants=(), opset=23):
    made = model(nodes, [tensor("x", x.shape)], [tensor("y", x.shape)], [*constants], opset=opset)
    got = tv.onnx.compile(made, optimization_level=0, fallback="none")(x)
    (want,) = ReferenceEvaluator(made).run(None, {"x": x})
    numpy.testing.assert_array_equal(got, want)
    return got


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
def test_casts(dtype, saturate):
    x = values(TYPES[dtype])
    got = compare([helper.make_node("Cast", ["x"], ["q"], "down", to=dtype, saturate=saturate),
                   helper.make_node("Cast", ["q"], ["y"], "up", to=TensorProto.FLOAT)], x)
    assert numpy.isfinite(got).sum() < len(x) and (got != x).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_pairs(dtype):
    """With a zero point of the type, which says what is made, and per channel."""
    x = values(TYPES[dtype])[:464].reshape(4, 116)
    zero = helper.make_tensor("z", dtype, [4], [0.0] * 4)
    scale = numpy.array([0.5, 1, 0.01, 3], "float32")
    compare([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize", axis=0),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "dequantize", axis=0)], x,
            [weight("s", scale), zero])


def test_output_dtype():
    x = values(448.0)
    compare([helper.make_node("QuantizeLinear", ["x", "s"], ["q"], "quantize",
                              output_dtype=TensorProto.FLOAT8E4M3FN),
             helper.make_node("DequantizeLinear", ["q", "s"], ["y"], "dequantize")], x,
            [weight("s", numpy.array(0.1, "float32"))])


def test_cast_like():
    x = values(57344.0)
    like = helper.make_tensor("like", TensorProto.FLOAT8E5M2, [1], [1.0])
    compare([helper.make_node("CastLike", ["x", "like"], ["q"], "down"),
             helper.make_node("CastLike", ["q", "x"], ["y"], "up")], x, [like])


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E8M0])
def test_types_without_casts(dtype):
    made = model([helper.make_node("Cast", ["x"], ["q"], "down", to=dtype),
                  helper.make_node("Cast", ["q"], ["y"], "up", to=TensorProto.FLOAT)],
                 [tensor("x", [4])], [tensor("y", [4])], [], opset=24)
    with pytest.raises(tv.UnsupportedError, match="no casts to float.* are known"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")
