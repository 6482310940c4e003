"""Weights of small floating-point numbers in ONNX files: read as they are packed, with the results
of onnx's reference evaluator."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import torch_vulkan as tv

from onnx_models import model, tensor, weight

ml_dtypes = pytest.importorskip("ml_dtypes")

TYPES = {TensorProto.FLOAT8E4M3FN: "float8_e4m3fn", TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
         TensorProto.FLOAT8E5M2: "float8_e5m2", TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
         TensorProto.FLOAT4E2M1: "float4_e2m1fn"}
E8M0 = TensorProto.FLOAT8E8M0


def numbers(codes, dtype):
    return codes.astype("uint8").view(getattr(ml_dtypes, dtype)).astype("float32")


def of_codes(name, codes, dtype):
    """A tensor of the file with these codes."""
    raw = codes.astype("uint8").flatten()
    if dtype == TensorProto.FLOAT4E2M1:
        raw = raw[::2] | raw[1::2] << 4
    return onnx.TensorProto(name=name, data_type=dtype, dims=codes.shape, raw_data=raw.tobytes())


def finite_codes(rng, shape, dtype):
    """Codes of numbers up to 8 in magnitude."""
    name = TYPES[dtype]
    codes = numpy.arange(16 if name.startswith("float4") else 256)
    known = numbers(codes, name)
    return rng.choice(codes[numpy.isfinite(known) & (numpy.abs(known) <= 8)], shape)


def outcomes(made, x):
    report = tv.dry_run(made, [x])
    return [t["outcome"] for engine in report.engines for t in engine["quantised"]]


def held_bytes(session):
    (engine,) = session.engines
    return sum(numpy.prod(w["shape"]) * numpy.dtype(w["dtype"]).itemsize
               for w in engine.info()["weights"])


def compiled(made):
    return tv.onnx.compile(made, optimization_level=0, fallback="none")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks(dtype, axis):
    rng = numpy.random.default_rng(0)
    steps, columns = 64, 24
    shape, scales = ((steps, columns), (4, columns)) if axis == 0 else (
        (columns, steps), (columns, 4))
    codes = finite_codes(rng, shape, dtype)
    scale = rng.uniform(0.01, 0.1, scales).astype("float32")
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "dequantize", axis=axis,
                              block_size=16),
             helper.make_node("MatMul", ["x", "d"], ["y"], "product") if axis == 0 else
             helper.make_node("Gemm", ["x", "d"], ["y"], "product", transB=1)]
    made = model(nodes, [tensor("x", [5, steps])], [tensor("y", [5, columns])],
                 [of_codes("w", codes, dtype), weight("s", scale)], opset=23)
    x = rng.standard_normal((5, steps)).astype("float32")
    exact = numbers(codes, TYPES[dtype]) * scale.repeat(16, axis=axis)
    session = compiled(made)
    numpy.testing.assert_allclose(session(x), x @ (exact if axis == 0 else exact.T), rtol=1e-5,
                                  atol=1e-5)
    assert outcomes(made, x) == ["read packed by 1 product"]
    bytes_each = 0.5 if dtype == TensorProto.FLOAT4E2M1 else 1
    assert held_bytes(session) <= steps * columns * bytes_each + 96 * 4


@pytest.mark.parametrize("dtype", TYPES)
def test_a_scale_of_all_and_zero_points_of_0(dtype):
    rng = numpy.random.default_rng(1)
    codes = finite_codes(rng, (32, 10), dtype)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], "dequantize"),
             helper.make_node("MatMul", ["x", "d"], ["y"], "product")]
    zero = onnx.TensorProto(name="z", data_type=dtype, dims=[], raw_data=b"\0")
    made = model(nodes, [tensor("x", [3, 32])], [tensor("y", None)],
                 [of_codes("w", codes, dtype), weight("s", numpy.float32(0.25)), zero], opset=23)
    x = rng.standard_normal((3, 32)).astype("float32")
    numpy.testing.assert_allclose(compiled(made)(x), x @ numbers(codes, TYPES[dtype]) / 4,
                                  rtol=1e-5, atol=1e-5)
    made.graph.initializer[2].raw_data = b"\1"
    with pytest.raises(tv.UnsupportedError, match="zero points .* that are not 0"):
        compiled(made)


@pytest.mark.parametrize("dtype", TYPES)
def test_casts(dtype):
    """Every code, by a product that reads no other, and where no product reads it."""
    name = TYPES[dtype]
    codes = numpy.arange(16 if name.startswith("float4") else 256).reshape(2, 1, -1)
    nodes = [helper.make_node("Cast", ["w"], ["c"], "cast", to=TensorProto.FLOAT),
             helper.make_node("Mul", ["x", "c"], ["y"], "times")]
    made = model(nodes, [tensor("x", [1])], [tensor("y", None)], [of_codes("w", codes, dtype)],
                 opset=23)
    numpy.testing.assert_array_equal(compiled(made)(numpy.ones(1, "float32")),
                                     numbers(codes, name))


@pytest.mark.parametrize("transposed", [False, True])
def test_scales_that_are_dequantised(transposed):
    """NVFP4: scales of 8 bits for each block of 16, and one float."""
    rng = numpy.random.default_rng(2)
    steps, columns, f4, f8 = 64, 24, TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN
    shape, blocks, axis = ((columns, steps), (columns, 4), 1) if transposed else (
        (steps, columns), (4, columns), 0)
    codes = finite_codes(rng, shape, f4)
    scale = rng.integers(0x20, 0x40, blocks)
    nodes = [helper.make_node("DequantizeLinear", ["s", "t"], ["f"], "scales"),
             helper.make_node("DequantizeLinear", ["w", "f"], ["d"], "dequantize", axis=axis,
                              block_size=16),
             helper.make_node("Gemm", ["x", "d"], ["y"], "product", transB=int(transposed))]
    made = model(nodes, [tensor("x", [5, steps])], [tensor("y", [5, columns])],
                 [of_codes("w", codes, f4), of_codes("s", scale, f8),
                  weight("t", numpy.float32(0.37))], opset=23)
    x = rng.standard_normal((5, steps)).astype("float32")
    exact = numbers(codes, "float4_e2m1fn") * (
        numbers(scale, "float8_e4m3fn") * numpy.float32(0.37)).repeat(16, axis=axis)
    session = compiled(made)
    numpy.testing.assert_allclose(session(x), x @ (exact.T if transposed else exact), rtol=1e-5,
                                  atol=1e-5)
    assert outcomes(made, x) == ["read packed by 1 product"]
    assert held_bytes(session) <= steps * columns // 2 + 96 + 4
    assert session.engines[0].info()["memory"]["weights_held"] < 3 * (steps * columns // 2 + 96)


def test_scales_that_are_powers_of_two():
    rng = numpy.random.default_rng(3)
    codes = finite_codes(rng, (24, 64), TensorProto.FLOAT4E2M1)
    scale = rng.integers(120, 130, (24, 2))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "dequantize", axis=1,
                              block_size=32, output_dtype=TensorProto.FLOAT),
             helper.make_node("Gemm", ["x", "d"], ["y"], "product", transB=1)]
    made = model(nodes, [tensor("x", [5, 64])], [tensor("y", [5, 24])],
                 [of_codes("w", codes, TensorProto.FLOAT4E2M1), of_codes("s", scale, E8M0)],
                 opset=25)
    x = rng.standard_normal((5, 64)).astype("float32")
    exact = numbers(codes, "float4_e2m1fn") * (2.0 ** (scale - 127)).repeat(32, axis=1)
    numpy.testing.assert_allclose(compiled(made)(x), x @ exact.T.astype("float32"), rtol=1e-5,
                                  atol=1e-5)
    assert outcomes(made, x) == ["read packed by 1 product"]
    made.graph.initializer[1].raw_data = b"\xff" * 48
    with pytest.raises(ValueError, match='scale "s": the code 255 at 0 is of no finite'):
        compiled(made)


def test_refit():
    def file(seed):
        rng = numpy.random.default_rng(seed)
        codes = finite_codes(rng, (32, 10), TensorProto.FLOAT8E4M3FN)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "dequantize", axis=1),
                 helper.make_node("MatMul", ["x", "d"], ["y"], "product")]
        return codes, model(nodes, [tensor("x", [3, 32])], [tensor("y", None)],
                            [of_codes("w", codes, TensorProto.FLOAT8E4M3FN),
                             weight("s", numpy.ones(10, "float32"))], opset=19)

    x = numpy.random.default_rng(9).standard_normal((3, 32)).astype("float32")
    session = compiled(file(0)[1])
    codes, other = file(1)
    session.refit(other)
    numpy.testing.assert_allclose(session(x), x @ numbers(codes, "float8_e4m3fn"), rtol=1e-5,
                                  atol=1e-5)


def test_what_would_show_the_codes_is_refused():
    codes = numpy.arange(16).reshape(4, 4)
    for node in (helper.make_node("Add", ["w", "w"], ["y"], "sum"),
                 helper.make_node("Identity", ["w"], ["y"], "same")):
        made = model([node], [], [tensor("y", None)],
                     [of_codes("w", codes, TensorProto.FLOAT8E5M2)], opset=23)
        with pytest.raises((tv.UnsupportedError, ValueError), match="float8e5m2"):
            compiled(made)


def test_numbers_are_those_of_onnx():
    """What this file calls a code's number."""
    for dtype, name in TYPES.items():
        codes = numpy.arange(16 if name.startswith("float4") else 256)
        theirs = numpy_helper.to_array(of_codes("w", codes, dtype)).astype("float32")
        numpy.testing.assert_array_equal(theirs, numbers(codes, name))
