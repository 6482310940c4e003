"""float8 in ONNX files, between nodes and as inputs and outputs, with the results of onnx's
reference evaluator."""

import numpy
import pytest
import torch
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


@pytest.mark.parametrize("fallback", ["none", "onnxruntime"])
@pytest.mark.parametrize("dtype", TYPES)
def test_inputs_and_outputs(dtype, fallback):
    """They are the numbers outside, as NumPy and torch name their types, and codes in an engine."""
    made = helper.make_model(helper.make_graph(
        [helper.make_node("Cast", ["q"], ["wide"], "up", to=TensorProto.FLOAT),
         helper.make_node("Mul", ["wide", "wide"], ["squares"]),
         helper.make_node("Cast", ["squares"], ["y"], "down", to=dtype),
         helper.make_node("Transpose", ["q"], ["turned"])], "g",
        [helper.make_tensor_value_info("q", dtype, [2, 128])],
        [helper.make_tensor_value_info("y", dtype, [2, 128]),
         helper.make_tensor_value_info("turned", dtype, [128, 2])]),
        opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    numbers = helper.tensor_dtype_to_np_dtype(dtype)
    q = numpy.arange(256, dtype="uint8").view(numbers).reshape(2, 128)
    session = tv.onnx.compile(made, optimization_level=0, fallback=fallback)
    assert len(session.engines) == 1 and not session.native
    got = session(q)
    want = ReferenceEvaluator(made).run(None, {"q": q})
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype == numbers
        numpy.testing.assert_array_equal(a.astype("float32"), b.astype("float32"))
    numpy.testing.assert_array_equal(got[1].view("uint8"), q.T.view("uint8"))
    codes = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    of_torch = codes.view(getattr(torch, numpy.dtype(numbers).name))
    assert session(of_torch)[1].dtype == of_torch.dtype
    with pytest.raises(ValueError, match="got .*uint8, want .*float8"):
        session(codes.numpy())


def test_bits_of_one_type_as_another():
    """Codes of float8 are bytes; what is computed of both is right."""
    made = helper.make_model(helper.make_graph(
        [helper.make_node("BitCast", ["q"], ["bytes"], to=TensorProto.UINT8),
         helper.make_node("BitCast", ["bytes"], ["other"], to=TensorProto.FLOAT8E5M2),
         helper.make_node("Cast", ["other"], ["wide"], to=TensorProto.FLOAT),
         helper.make_node("BitCast", ["wide"], ["bits"], to=TensorProto.INT32)], "g",
        [helper.make_tensor_value_info("q", TensorProto.FLOAT8E4M3FN, [256])],
        [helper.make_tensor_value_info("bytes", TensorProto.UINT8, [256]),
         helper.make_tensor_value_info("other", TensorProto.FLOAT8E5M2, [256]),
         helper.make_tensor_value_info("bits", TensorProto.INT32, [256])]),
        opset_imports=[helper.make_opsetid("", 26)], ir_version=13)
    codes = numpy.arange(256, dtype="uint8")
    codes[(codes & 0x7c) == 0x7c] = 0  # infinities and NaNs: which of the latter is not said
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    same, other, bits = session(codes.view("float8_e4m3fn"))
    numpy.testing.assert_array_equal(same, codes)
    assert same.dtype == numpy.uint8 and other.dtype == numpy.dtype("float8_e5m2")
    numpy.testing.assert_array_equal(other.view("uint8"), codes)
    want = codes.view("float8_e5m2").astype("float32").view("int32")
    numpy.testing.assert_array_equal(bits, want)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E8M0])
def test_types_without_casts(dtype):
    made = model([helper.make_node("Cast", ["x"], ["q"], "down", to=dtype),
                  helper.make_node("Cast", ["q"], ["y"], "up", to=TensorProto.FLOAT)],
                 [tensor("x", [4])], [tensor("y", [4])], [], opset=24)
    with pytest.raises(tv.UnsupportedError, match="no casts to float.* are known"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")
