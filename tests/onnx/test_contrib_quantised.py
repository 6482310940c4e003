"""com.microsoft's operators on 8-bit integers, and tables of 4 and 8 bits."""

import numpy
import pytest

import torch_vulkan as tv

pytest.importorskip("onnxruntime")
from contrib_nodes import check, node_model

from marks import turns

INTEGERS = ["uint8", "int8"]


def integers(shape, dtype, seed=0):
    info = numpy.iinfo(dtype)
    return numpy.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def weights(shape, dtype, seed=0):
    """As `integers`; signed ones of 7 bits: with more, the CPU provider's products of uint8 and
    int8 saturate at 16 bits on machines without VNNI, and engines' sums are exact."""
    found = integers(shape, dtype, seed)
    return found // 2 if dtype == "int8" else found


def scale(value):
    return numpy.array(value, "float32")


def zero(dtype, value=7):
    return numpy.array(value if dtype == "int8" else 128 + value, dtype)


def floats(shape, seed=0, dtype="float32"):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


@turns(3, each=("dtype", "op"))
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(3, 41), (41,)])
def test_binary(op, shape, dtype):
    check(op, {"a": integers((3, 41), dtype), "as": scale(0.03), "az": zero(dtype),
               "b": integers(shape, dtype, 1), "bs": scale(0.05), "bz": zero(dtype, -4),
               "cs": scale(0.09), "cz": zero(dtype, 2)}, steps=1)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op, attributes", [
    ("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.3}), ("QLinearLeakyRelu", {}),
    ("QLinearSoftmax", {"axis": -1, "opset_": 13}), ("QLinearSoftmax", {"axis": 1, "opset_": 12}),
    ("QLinearSoftmax", {"opset_": 12}), ("QLinearSoftmax", {"opset_": 13})])
def test_unary(op, attributes, dtype):
    attributes = dict(attributes)
    own = attributes.pop("opset_", None)
    made, feed = node_model(op, {"x": integers((3, 4, 29), dtype), "xs": scale(0.04),
                                 "xz": zero(dtype), "ys": scale(0.01), "yz": zero(dtype, -90)},
                            **attributes)
    if own:
        from onnx import helper
        made.graph.node[0].attribute.append(helper.make_attribute("opset", own))
    from contrib_nodes import compare, reference
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    compare(session.run(None, feed), reference(made, feed), steps=1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_concat(dtype):
    check("QLinearConcat", {"ys": scale(0.06), "yz": zero(dtype, 3),
                            "a": integers((2, 3, 5), dtype), "as": scale(0.03), "az": zero(dtype),
                            "b": integers((2, 4, 5), dtype, 1), "bs": scale(0.07),
                            "bz": zero(dtype, -9)}, axis=1, steps=1)


def test_where():
    condition = numpy.random.default_rng(3).random((3, 41)) < 0.5
    check("QLinearWhere", {"c": condition, "x": integers((3, 41), "uint8"), "xs": scale(0.03),
                           "xz": zero("uint8"), "y": integers((3, 41), "uint8", 1),
                           "ys": scale(0.05), "yz": zero("uint8", -5), "zs": scale(0.06),
                           "zz": zero("uint8", 1)}, steps=1)


@pytest.mark.parametrize("keep", [0, 1])
def test_reduce_mean(keep):
    """The CPU provider has no kernel of it."""
    x = integers((3, 6, 5), "uint8")
    mean = ((x.astype("float32") - 135) * 0.04).mean(axis=1, keepdims=bool(keep))
    want = numpy.clip(numpy.round(mean / 0.01) + 126, 0, 255).astype("uint8")
    check("QLinearReduceMean", {"x": x, "xs": scale(0.04), "xz": zero("uint8"), "ys": scale(0.01),
                                "yz": zero("uint8", -2)}, axes=[1], keepdims=keep, steps=1,
          want=[want])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_conv(bias, last):
    x = integers((2, 4, 7, 6), "uint8")
    inputs = {"x": numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x,
              "xs": scale(0.02), "xz": zero("uint8"), "w": weights((5, 4, 3, 3), "int8", 1),
              "ws": scale(0.03), "wz": zero("int8", 0), "ys": scale(0.4), "yz": zero("uint8", 3),
              "b": numpy.arange(-200, 300, 100, dtype="int32") if bias else None}
    check("QLinearConv", inputs, channels_last=last, pads=[1, 1, 1, 1], steps=1,
          constants=("w", "ws", "wz"))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_global_average_pool(dtype, last):
    check("QLinearGlobalAveragePool",
          {"x": integers((2, 7, 6, 5), dtype), "xs": scale(0.04), "xz": zero(dtype),
           "ys": scale(0.01), "yz": zero(dtype, -2)}, channels_last=last, steps=1)


@pytest.mark.parametrize("attributes", [
    {}, {"pads": [1, 1, 1, 1]}, {"pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]}])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_average_pool(dtype, attributes):
    check("QLinearAveragePool",
          {"x": integers((2, 4, 9, 8), dtype), "xs": scale(0.04), "xz": zero(dtype),
           "ys": scale(0.02), "yz": zero(dtype, -2)}, kernel_shape=[3, 3], steps=1, **attributes)


# --- products ---

@pytest.mark.parametrize("a_type, b_type", [("uint8", "int8"), ("uint8", "uint8"),
                                            ("int8", "int8")])
@pytest.mark.parametrize("columns, zeros, bias", [(False, True, True), (True, True, False),
                                                  (True, False, True)])
def test_matmul_integer_to_float(a_type, b_type, columns, zeros, bias):
    rng = numpy.random.default_rng(4)
    inputs = {"a": integers((2, 5, 31), a_type), "b": weights((31, 12), b_type, 1),
              "as": scale(0.02),
              "bs": rng.uniform(0.01, 0.1, 12).astype("float32") if columns else scale(0.05),
              "az": zero(a_type) if zeros else None,
              "bz": (integers(12, b_type, 5) if columns else zero(b_type, 3)) if zeros else None,
              "c": floats(12, 6) if bias else None}
    check("MatMulIntegerToFloat", inputs, constants=("b", "bs"), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_dynamic_quantize_matmul(dtype, zeros, columns):
    rng = numpy.random.default_rng(4)
    inputs = {"a": floats((2, 5, 31)), "b": weights((31, 12), dtype, 1),
              "bs": rng.uniform(0.01, 0.1, 12).astype("float32") if columns else scale(0.05),
              "bz": (integers(12, dtype, 5) if columns else zero(dtype, 3)) if zeros else None,
              "c": floats(12, 6)}
    check("DynamicQuantizeMatMul", inputs, constants=("b", "bs"), rtol=1e-3, atol=2e-2)


def test_dynamic_quantize_matmul_of_zeros():
    inputs = {"a": numpy.zeros((2, 5, 31), "float32"), "b": weights((31, 12), "int8", 1),
              "bs": scale(0.05), "bz": None, "c": floats(12, 6)}
    check("DynamicQuantizeMatMul", inputs, constants=("b", "bs"), rtol=0, atol=0)


@pytest.mark.parametrize("quantised", [True, False])
def test_gemm(quantised):
    inputs = {"a": integers((5, 17), "uint8"), "as": scale(0.02), "az": zero("uint8"),
              "b": weights((9, 17), "int8", 1), "bs": scale(0.03), "bz": zero("int8", 0),
              "c": numpy.random.default_rng(2).integers(-900, 900, 9).astype("int32")}
    if quantised:
        inputs |= {"ys": scale(0.2), "yz": zero("uint8", 1)}
    check("QGemm", inputs, transB=1, constants=("b",), steps=1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", [None, numpy.array([5, 3], "int32")])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal, mask):
    check("QAttention", {"x": integers((2, 5, 16), "uint8"), "w": weights((16, 72), "int8", 1),
                         "b": floats(72, 2), "xs": scale(0.01), "ws": scale(0.01), "m": mask,
                         "xz": zero("uint8"), "wz": zero("int8", 0)}, num_heads=3,
          unidirectional=causal, constants=("w", "b", "ws"), rtol=1e-3, atol=1e-3)


# --- com.microsoft's QuantizeLinear and DequantizeLinear ---

@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantize_linear(dtype):
    x = floats((3, 8), 1)
    check("QuantizeLinear", {"x": x, "s": scale(0.02), "z": zero(dtype)}, steps=1)
    check("QuantizeLinear", {"x": x, "s": numpy.linspace(0.01, 0.1, 8, dtype="float32"),
                             "z": integers(8, dtype)}, axis=1, steps=1)
    check("DequantizeLinear", {"x": integers((3, 8), dtype), "s": scale(0.02), "z": zero(dtype)})


# --- GatherBlockQuantized ---

@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gather_block_quantized(dtype, zeros, bits):
    rows, width, block = 13, 96, 16
    count = width // block
    stored = count if bits == 8 else (count + 1) // 2
    inputs = {"data": integers((rows, width * bits // 8), "uint8"),
              "ids": numpy.array([[3, 0, 12], [1, 1, 5]], "int64"),
              "scales": numpy.random.default_rng(1).uniform(0.01, 0.1, (rows, count)).astype(dtype),
              "zeros": integers((rows, stored), "uint8", 2) if zeros else None}
    session = check("GatherBlockQuantized", inputs, bits=bits, block_size=block, gather_axis=0,
                    quantize_axis=1,
                    constants=[n for n in ("data", "scales", "zeros") if inputs[n] is not None])
    (engine,) = session.engines
    held = sum(numpy.prod(w["shape"]) * numpy.dtype(w["dtype"]).itemsize
               for w in engine.info()["weights"])
    assert held <= rows * width * bits // 8 + rows * count * 5  # the table stays packed


@pytest.mark.parametrize("inputs, attributes, message", [
    ({"axis": 1}, {}, "what is no matrix with rows to gather"),
    ({}, {"bits": 2}, "data of 2 bits")])
def test_gathers_that_are_refused(inputs, attributes, message):
    given = {"block_size": 16, "gather_axis": inputs.get("axis", 0), "quantize_axis": 1,
             **attributes}
    made, _ = node_model("GatherBlockQuantized", {
        "data": integers((13, 48), "uint8"), "ids": numpy.array([1, 2], "int64"),
        "scales": numpy.ones((13, 6), "float32")}, constants=("data", "scales"), **given)
    with pytest.raises(tv.UnsupportedError, match=message):
        tv.onnx.compile(made, fallback="none")
