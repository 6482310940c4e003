"""Quantised networks: pairs of QuantizeLinear and DequantizeLinear, and operators on integers,
compute what ONNX Runtime computes, to the bit where the results are integers."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import torch_vulkan as tv

from marks import turns
from onnx_models import model, tensor, weight

onnxruntime = pytest.importorskip("onnxruntime")
from onnxruntime.quantization import (  # noqa: E402
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)


def wanted(made, feed):
    options = onnxruntime.SessionOptions()  # or it rounds biases to make integer kernels of pairs
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def both(made, **feed):
    """Results of an engine and of ONNX Runtime."""
    got = tv.onnx.compile(made, optimization_level=0).run(None, feed)
    return list(zip(got, wanted(made, feed), strict=True))


def number(name, value, dtype="float32"):
    return weight(name, numpy.array(value, dtype))


def quantised(name, source, scale, zero, nodes, axis=None):
    """A pair after `source`; the name of what it gives."""
    attributes = {} if axis is None else {"axis": axis}
    nodes.append(helper.make_node("QuantizeLinear", [source, scale, zero], [f"{name}_q"],
                                  f"{name}/quantise", **attributes))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_d"],
                                  f"{name}/dequantise", **attributes))
    return f"{name}_d"


def test_pairs_around_a_network():
    """As quantisers write them: activations by tensor, weights by channel."""
    rng = numpy.random.default_rng(0)
    w = rng.integers(-127, 128, (8, 3, 3, 3)).astype("int8")
    nodes, weights = [], [
        weight("w", w), weight("w_scale", rng.uniform(0.001, 0.02, 8).astype("float32")),
        weight("w_zero", numpy.zeros(8, "int8")), number("x_scale", 0.03125),
        number("x_zero", 128, "uint8"), number("y_scale", 0.0625), number("y_zero", 3, "int8"),
        weight("b", rng.standard_normal(8).astype("float32"))]
    x = quantised("x", "x", "x_scale", "x_zero", nodes)
    nodes.append(helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_d"], axis=0))
    nodes.append(helper.make_node("Conv", [x, "w_d", "b"], ["c"], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    nodes.append(helper.make_node("Identity", [quantised("r", "r", "y_scale", "y_zero", nodes)],
                                  ["y"]))
    made = model(nodes, [tensor("x", [2, 3, 7, 9])], [tensor("y", None), tensor("c", None)],
                 weights)
    x = rng.standard_normal((2, 3, 7, 9)).astype("float32") * 3
    (got, want), (sums, wanted_sums) = both(made, x=x)
    numpy.testing.assert_allclose(sums, wanted_sums, rtol=1e-5, atol=1e-5)
    # A sum that lies on a half may be rounded to either side of it.
    steps = numpy.abs(got - want) / 0.0625
    assert steps.max() <= 1 and (steps > 0).mean() < 0.01


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_pair_saturates_and_rounds_to_even(dtype):
    low = numpy.iinfo(dtype).min
    made = model([helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
                  helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])],
                 [tensor("x", [None])], [tensor("q", None, getattr(TensorProto, dtype.upper())),
                                         tensor("y", None)],
                 [number("scale", 0.5), number("zero", low + 100, dtype)])
    x = numpy.array([0, 0.25, 0.75, 1.25, -0.25, -0.75, 1e9, -1e9, numpy.inf, -numpy.inf, 63.3],
                    "float32")
    for got, want in both(made, x=x):
        numpy.testing.assert_array_equal(got, want)


def integers(shape, dtype, seed):
    info = numpy.iinfo(dtype)
    return numpy.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("channels, group", [(3, 1), (100, 1), (8, 4)])
def test_convolutions_of_integers(channels, group):
    """Of more terms than a float32 sum holds exactly, too."""
    x = integers((2, channels, 6, 5), "uint8", 0)
    w = integers((8, channels // group, 3, 3), "uint8", 1)
    made = model([helper.make_node("ConvInteger", ["x", "w", "x_zero", "w_zero"], ["y"],
                                   pads=[1, 0, 1, 2], strides=[2, 1], group=group)],
                 [tensor("x", x.shape, TensorProto.UINT8)],
                 [tensor("y", None, TensorProto.INT32)],
                 [weight("w", w), number("x_zero", 7, "uint8"), number("w_zero", 200, "uint8")])
    ((got, want),) = both(made, x=x)
    assert got.dtype == numpy.int32 and numpy.abs(want).max() > (1 << 16)
    numpy.testing.assert_array_equal(got, want)


def test_a_quantised_convolution():
    # Weights of 7 bits: ONNX Runtime's kernels for CPUs without VNNI saturate at 16 bits.
    x, w = integers((1, 40, 6, 5), "uint8", 0), integers((4, 40, 3, 3), "int8", 1) // 2
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    made = model([helper.make_node("QLinearConv", names, ["y"])],
                 [tensor("x", x.shape, TensorProto.UINT8)], [tensor("y", None, TensorProto.UINT8)],
                 [number("x_scale", 0.01), number("x_zero", 120, "uint8"), weight("w", w),
                  weight("w_scale", numpy.array([0.01, 0.02, 0.004, 0.03], "float32")),
                  weight("w_zero", numpy.zeros(4, "int8")), number("y_scale", 1.5),
                  number("y_zero", 90, "uint8"),
                  weight("b", numpy.array([1000, -70000, 5, 0], "int32"))])
    ((got, want),) = both(made, x=x)
    steps = numpy.abs(got.astype(int) - want.astype(int))
    assert steps.max() <= 1 and (steps > 0).mean() < 0.05 and len(numpy.unique(want)) > 20


def test_sums_of_any_length():
    """Float32 would not hold them exactly."""
    x, w = integers((1, 3, 20, 20), "uint8", 0), integers((2, 3, 17, 17), "uint8", 1)
    made = model([helper.make_node("ConvInteger", ["x", "w"], ["y"], "node")],
                 [tensor("x", x.shape, TensorProto.UINT8)], [tensor("y", None, TensorProto.INT32)],
                 [weight("w", w)])
    ((got, want),) = both(made, x=x)
    numpy.testing.assert_array_equal(got, want)
    assert want.max() > 1 << 22
    a, b = integers((2, 3, 700), "uint8", 0), integers((700, 5), "int8", 1)
    made = model([helper.make_node("MatMulInteger", ["a", "b", "zero"], ["y"])],
                 [tensor("a", a.shape, TensorProto.UINT8), tensor("b", b.shape, TensorProto.INT8)],
                 [tensor("y", None, TensorProto.INT32)], [number("zero", 255, "uint8")])
    (got,) = tv.onnx.compile(made, optimization_level=0).run(None, {"a": a, "b": b})
    numpy.testing.assert_array_equal(got, (a.astype(int) - 255) @ b.astype(int))


@pytest.mark.parametrize("a, b", [((2, 1, 3, 8), (4, 8, 5)), ((8,), (8, 5)), ((3, 8), (8,)),
                                  ((8,), (8,)), ((2, 3, 8), (8,))])
def test_products_of_integers_broadcast(a, b):
    a, b = integers(a, "uint8", 0), integers(b, "int8", 1)
    made = model([helper.make_node("MatMulInteger", ["a", "b", "a_zero", "b_zero"], ["y"])],
                 [tensor("a", a.shape, TensorProto.UINT8), tensor("b", b.shape, TensorProto.INT8)],
                 [tensor("y", None, TensorProto.INT32)],
                 [number("a_zero", 7, "uint8"), number("b_zero", -3, "int8")])
    (got,) = tv.onnx.compile(made, optimization_level=0).run(None, {"a": a, "b": b})
    numpy.testing.assert_array_equal(got, (a.astype(int) - 7) @ (b.astype(int) + 3))


def test_shifts_past_the_width():
    """By 8 and more nothing is left of 8 bits."""
    x, n = numpy.array([200, 255, 1, 128], "uint8"), numpy.array([8, 255, 9, 7], "uint8")
    for direction, expected in (("RIGHT", [0, 0, 0, 1]), ("LEFT", [0, 0, 0, 0])):
        made = model([helper.make_node("BitShift", ["x", "n"], ["y"], direction=direction)],
                     [tensor("x", [4], TensorProto.UINT8), tensor("n", [4], TensorProto.UINT8)],
                     [tensor("y", [4], TensorProto.UINT8)])
        (y,) = tv.onnx.compile(made, optimization_level=0).run(None, {"x": x, "n": n})
        assert y.tolist() == expected


@pytest.mark.parametrize("form", ["channel", "tensor", "rows", "blocks"])
def test_products_read_packed_weights(form):
    rng = numpy.random.default_rng(1)
    rows, shape = form == "rows", {"channel": 48, "rows": 48, "tensor": (), "blocks": (4, 48)}[form]
    q = rng.integers(-127, 128, (48, 64) if rows else (64, 48)).astype("int8")
    weights = [weight("q", q), weight("s", rng.uniform(0.001, 0.02, shape).astype("float32")),
               weight("z", rng.integers(-3, 4, shape).astype("int8"))]
    attributes = {"channel": {"axis": 1}, "rows": {"axis": 0}, "tensor": {},
                  "blocks": {"axis": 0, "block_size": 16}}[form]
    nodes = [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **attributes),
             helper.make_node("Gemm", ["x", "w"], ["y"], transB=1) if rows else
             helper.make_node("MatMul", ["x", "w"], ["y"])]
    made = model(nodes, [tensor("x", [3, 64])], [tensor("y", None)], weights, opset=21)
    x = rng.standard_normal((3, 64)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0)
    numpy.testing.assert_allclose(session.run(None, {"x": x})[0], wanted(made, {"x": x})[0],
                                  rtol=1e-4, atol=1e-4)
    tactics = [layer["tactic"] for layer in session.engine.info()["layers"]]
    assert [name for name in tactics if name.startswith("matmul_quantised")], tactics


@pytest.mark.parametrize("op, scale", [
    *[("QuantizeLinear", scale) for scale in (0.0, -0.5, float("inf"), float("nan"))],
    *[(op, scale) for op in ("DequantizeLinear", "QLinearMatMul")
      for scale in (float("inf"), float("nan"))]])
def test_bad_scales_are_refused(op, scale):
    zero = number("z", 0, "int8")
    scales = weight("bad", numpy.array([0.5, scale], "float32"))
    if op == "QLinearMatMul":
        node = helper.make_node(op, ["x", "s", "z", "w", "bad", "z", "s", "z"], ["y"], "node")
        weights = [weight("w", integers((4, 2), "int8", 0)), number("s", 1.0), zero, scales]
    else:
        node = helper.make_node(op, ["x", "bad"], ["y"], "node", axis=1)
        weights = [scales]
    dtype = TensorProto.FLOAT if op == "QuantizeLinear" else TensorProto.INT8
    shape = [3, 4] if op == "QLinearMatMul" else [3, 2]
    with pytest.raises(ValueError, match='(?s)"node".*"bad": 1 of 2 are not (positive )?finite'):
        tv.onnx.compile(model([node], [tensor("x", shape, dtype)], [tensor("y", None)], weights))


class Batches(CalibrationDataReader):
    def __init__(self, shape):
        rng = numpy.random.default_rng(3)
        self.batches = iter([{"x": rng.standard_normal(shape).astype("float32")} for _ in range(4)])

    def get_next(self):
        return next(self.batches, None)


def small_network(opset):
    """Convolutions with a residual, and a layer."""
    rng = numpy.random.default_rng(2)

    def some(name, *shape):
        scale = numpy.sqrt(max(1, numpy.prod(shape[1:])))
        return weight(name, (rng.standard_normal(shape) / scale).astype("float32"))

    nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c1"], ["r1"], "relu"),
             helper.make_node("Conv", ["r1", "w2"], ["c2"], "second", pads=[1, 1, 1, 1]),
             helper.make_node("Add", ["c2", "r1"], ["a"], "residual"),
             helper.make_node("GlobalAveragePool", ["a"], ["p"], "pool"),
             helper.make_node("Flatten", ["p"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "head", transB=1)]
    return model(nodes, [tensor("x", [2, 3, 12, 12])], [tensor("y", [2, 10])],
                 [some("w1", 16, 3, 3, 3), some("b1", 16), some("w2", 16, 16, 3, 3),
                  some("w3", 10, 16), some("b3", 10)], opset)


@turns(2)
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("opset", [13, 21])
def test_what_onnxruntime_quantises(opset, per_channel, activations, tmp_path):
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(small_network(opset), source)
    types = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
    quantize_static(source, made, Batches((2, 3, 12, 12)), quant_format=QuantFormat.QDQ,
                    per_channel=per_channel, activation_type=types[activations],
                    weight_type=QuantType.QInt8)
    made = onnx.load(made)
    scales = {w.name: numpy_helper.to_array(w) for w in made.graph.initializer}
    x = next(Batches((2, 3, 12, 12)).batches)["x"]
    session = tv.onnx.compile(made, optimization_level=0)
    (got,), (want,) = session.run(None, {"x": x}), wanted(made, {"x": x})
    steps = numpy.abs(got - want) / scales["y_scale"]
    assert steps.max() <= 1.01 and (steps > 0.5).mean() <= 0.1
    layers = session.engine.info()["layers"]
    assert any(layer["tactic"].startswith("matmul_integer") for layer in layers)
    assert not any("aten::mm" in layer["ops"] for layer in layers)


def test_what_onnxruntime_quantises_at_each_call(tmp_path):
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(small_network(17), source)
    quantize_dynamic(source, made)
    made = onnx.load(made)
    x = next(Batches((2, 3, 12, 12)).batches)["x"]
    (got,) = tv.onnx.compile(made, optimization_level=0).run(None, {"x": x})
    (want,) = wanted(made, {"x": x})
    # Of an activation a step is rounded the other way where sums before it were.
    assert numpy.abs(got - want).max() <= 0.02 * numpy.abs(want).max()


INF = float("inf")


@pytest.mark.parametrize("values", [
    [0, 0, 0, 0], [-0.0, 0, -0.0, 0], [3, 3, 3, 3], [-3, -3, -3, -3], [1, 2, 3, 5],
    [-1, -2, -3, -5], [-1, 0.5, 2, -2], [7, 0, 0, 0], [-0.5, 254.5, 0.5, 1.5], [3e38, -3e38, 1, 2],
    [1e-45, 1e-45, 1e-45, 1e-45], [1e-40, -1e-40, 0, 1e-42], [INF, 1, 2, 3], [-INF, 1, 2, 3],
    [-INF, INF, 1, 0], []])
def test_ranges_of_a_tensor(values):
    """Its scale and zero point, where the range is nothing, one-sided, or too large."""
    x = numpy.array(values, "float32")
    made = model([helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])],
                 [tensor("x", x.shape)],
                 [tensor("y", x.shape, TensorProto.UINT8), tensor("scale", []),
                  tensor("zero", [], TensorProto.UINT8)])
    for got, want in both(made, x=x):
        assert numpy.array_equal(got, want), (got, want)


def test_scales_that_do_not_fit_are_refused():
    made = model([helper.make_node("DequantizeLinear", ["x", "s"], ["y"], "node", axis=1)],
                 [tensor("x", [2, 6], TensorProto.INT8)], [tensor("y", None)],
                 [weight("s", numpy.array([1.0, 2.0, 3.0], "float32"))])
    with pytest.raises(tv.UnsupportedError, match="sizes 6 and 3"):
        tv.onnx.compile(made, fallback="none")


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("x, scale, zero, block, message", [
    ((2, 6), (6,), (2,), 0, r"the zero point is \[2\], the scale \[6\]: want one shape"),
    ((2, 6), (2, 3), (2, 1), 2, r"the zero point is \[2, 1\], the scale \[2, 3\]: want one shape"),
    ((2, 6), (3,), (3,), 2, r"scale of the input's rank: the scale is \[3\], the input \[2, 6\]"),
])
def test_zero_points_and_blocks_that_do_not_fit(op, x, scale, zero, block, message):
    made = model([helper.make_node(op, ["x", "s", "z"], ["y"], "node", axis=1, block_size=block)],
                 [tensor("x", x, TensorProto.FLOAT if op == "QuantizeLinear" else
                         TensorProto.INT8)], [tensor("y", None)],
                 [weight("s", numpy.ones(scale, "float32")),
                  weight("z", numpy.zeros(zero, "int8"))], opset=21)
    with pytest.raises(ValueError, match=message):
        tv.onnx.compile(made, fallback="none")


def test_four_bits_whose_zero_point_does_not_fit():
    made = model([helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], "node", axis=1),
                  helper.make_node("MatMul", ["x", "d"], ["y"])],
                 [tensor("x", [3, 4])], [tensor("y", None)],
                 [helper.make_tensor("w", TensorProto.INT4, (4, 6), [1] * 24),
                  weight("s", numpy.ones(6, "float32")),
                  helper.make_tensor("z", TensorProto.INT4, (4,), [1] * 4)], opset=21)
    with pytest.raises(ValueError, match=r"the zero point is \[4\], the scale \[6\]"):
        tv.onnx.compile(made, fallback="none")
