"""Pairs of QuantizeLinear and DequantizeLinear around what moves, joins, pools or resizes: integers
throughout, with ONNX Runtime's results."""

import numpy
import pytest
from onnx import TensorProto, helper
from test_quantised import integers, number, wanted

import torch_vulkan as tv

from onnx_models import model, tensor, weight

SAME, OTHER = ("s", "z"), ("s2", "z2")


def scales():
    return [number("s", 0.021), number("z", 117, "uint8"), number("s2", 0.03),
            number("z2", 90, "uint8")]


def quantise(source, result, scale):
    return helper.make_node("QuantizeLinear", [source, *scale], [result], f"{result}/quantise")


def dequantise(source, scale):
    return helper.make_node("DequantizeLinear", [source, *scale], [f"{source}_f"],
                            f"{source}/dequantise")


def between(op, after, weights=(), extra=(), parts=((SAME, "q"),), **attributes):
    """uint8 tensors, dequantised, through `op`, quantised again."""
    nodes = [dequantise(name, scale) for scale, name in parts]
    names = [f"{name}_f" for _, name in parts]
    nodes += [helper.make_node(op, [*names, *extra], ["f"], "node", **attributes),
              quantise("f", "y", after)]
    inputs = [tensor(name, [2, 8, 12, 10], TensorProto.UINT8) for _, name in parts]
    return model(nodes, inputs, [tensor("y", None, TensorProto.UINT8)], [*scales(), *weights], 18)


def ran(made, names=("q",)):
    """The engine's launches; its results are those of ONNX Runtime."""
    feed = {name: integers((2, 8, 12, 10), "uint8", i) for i, name in enumerate(names)}
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    ((got,), (want,)) = session.run(None, feed), wanted(made, feed)
    assert got.dtype == want.dtype
    return session.engine.info()["layers"], got, want


def vector(name, *values, dtype="int64"):
    return weight(name, numpy.array(values, dtype))


MOVES = {
    "MaxPool": dict(op="MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "GlobalMaxPool": dict(op="GlobalMaxPool"),
    "Transpose": dict(op="Transpose", perm=[0, 2, 3, 1]),
    "Reshape": dict(op="Reshape", extra=["to"], weights=[vector("to", 2, 96, 10)]),
    "Flatten": dict(op="Flatten"),
    "DepthToSpace": dict(op="DepthToSpace", blocksize=2),
    "Resize": dict(op="Resize", extra=["", "by"], mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric",
                   weights=[vector("by", 1, 1, 2, 2, dtype="float32")]),
    "Pad": dict(op="Pad", extra=["by"], weights=[vector("by", 0, 0, 1, 0, 0, 0, 2, 3)]),
    "Slice": dict(op="Slice", extra=["from", "to", "axes"],
                  weights=[vector("from", 1), vector("to", 6), vector("axes", 1)]),
}


@pytest.mark.parametrize("after", [SAME, OTHER])
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, after):
    layers, got, want = ran(between(after=after, **MOVES[name]))
    numpy.testing.assert_array_equal(got, want)
    if after == SAME and name != "GlobalMaxPool":  # which is a reduction, from bytes to bytes
        ops = {op for layer in layers for op in layer["ops"]}
        assert not any("uantize" in op or "div" in op for op in ops), ops
    assert sum(layer["tactic"].startswith("pointwise") for layer in layers) <= (after == OTHER)


@pytest.mark.parametrize("second", [SAME, OTHER])
def test_joins(second):
    made = between("Concat", SAME, parts=((SAME, "a"), (second, "b")), axis=1)
    layers, got, want = ran(made, ("a", "b"))
    numpy.testing.assert_array_equal(got, want)
    quantising = [layer for layer in layers if layer["tactic"].startswith("pointwise")]
    assert len(quantising) == (second == OTHER)  # that part is an input


@pytest.mark.parametrize("op", ["AveragePool", "GlobalAveragePool"])
def test_average_pools(op):
    """In one launch. Sums lie on halves often; which way one is rounded follows from how the floats
    were added, and ONNX Runtime adds them in another order."""
    attributes = {} if op.startswith("Global") else dict(kernel_shape=[3, 3], strides=[2, 2])
    layers, got, want = ran(between(op, SAME, **attributes))
    off = numpy.abs(got.astype(int) - want.astype(int))
    exact = integers((2, 8, 12, 10), "uint8", 0).astype(float)
    count = 120 if op.startswith("Global") else 9
    assert off.max() <= 1 and len(layers) == 1
    if count == 9:  # of which no sum lies on a half
        assert off.max() == 0
    else:
        mean = exact.mean((2, 3), keepdims=True)
        assert (numpy.abs(mean - numpy.floor(mean) - 0.5)[off > 0] < 1e-3).all()


def test_pairs_of_a_quantised_network_are_gone():
    """Convolution, pool, join, convolution: bytes between all of them."""
    rng = numpy.random.default_rng(0)

    def layer(name, source, shape, scale, more=()):
        q = rng.integers(-60, 60, shape).astype("int8")
        weights.extend([weight(f"{name}w", q), vector(f"{name}s", *[2.0 ** -7] * shape[0],
                                                      dtype="float32")])
        return [helper.make_node("DequantizeLinear", [f"{name}w", f"{name}s"], [f"{name}f"],
                                 axis=0),
                helper.make_node("Conv", [source, f"{name}f"], [f"{name}y"], name, **dict(more)),
                quantise(f"{name}y", name, scale), dequantise(name, scale)]

    weights = [number("s", 2.0 ** -5), number("z", 117, "uint8"), number("s2", 2.0 ** -4),
               number("z2", 90, "uint8")]
    nodes = [quantise("x", "q", SAME), dequantise("q", SAME),
             *layer("a", "q_f", (8, 3, 3, 3), OTHER, {"pads": [1, 1, 1, 1]}),
             helper.make_node("MaxPool", ["a_f"], ["p"], "pool", kernel_shape=[2, 2],
                              strides=[2, 2]),
             quantise("p", "pq", OTHER), dequantise("pq", OTHER),
             *layer("b", "q_f", (4, 3, 2, 2), SAME, {"strides": [2, 2]}),
             helper.make_node("Concat", ["pq_f", "b_f"], ["j"], "join", axis=1),
             quantise("j", "jq", OTHER), dequantise("jq", OTHER),
             *layer("c", "jq_f", (5, 12, 1, 1), OTHER)]
    made = model(nodes, [tensor("x", [2, 3, 12, 10])], [tensor("c", None, TensorProto.UINT8)],
                 weights, 18)
    x = rng.standard_normal((2, 3, 12, 10)).astype("float32")
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    ((got,), (want,)) = session.run(None, {"x": x}), wanted(made, {"x": x})
    numpy.testing.assert_array_equal(got, want)
    layers = session.engine.info()["layers"]
    quantising = [layer for layer in layers if layer["tactic"].startswith("pointwise")]
    # Of the input; on CPU drivers also of the part of the join that gets another scale: with what
    # scales its sums it reads more numbers than a program does there.
    assert len(quantising) == (2 if tv.devices()[0].type == "cpu" else 1), layers


@pytest.mark.parametrize("kernel, stride", [(3, 1), (2, 2), (4, 2)])
def test_transposed_convolutions(kernel, stride):
    w = integers((8, 6, kernel, kernel), "int8", 1) // 2
    nodes = [dequantise("q", SAME),
             helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"], axis=1),
             helper.make_node("ConvTranspose", ["q_f", "wf", "b"], ["f"], "node",
                              strides=[stride, stride]),
             quantise("f", "y", OTHER)]
    made = model(nodes, [tensor("q", [2, 8, 12, 10], TensorProto.UINT8)],
                 [tensor("y", None, TensorProto.UINT8)],
                 [number("s", 2.0 ** -5), number("z", 117, "uint8"), number("s2", 2.0 ** -2),
                  number("z2", 90, "uint8"), weight("w", w),
                  vector("ws", *2.0 ** -(7.0 + numpy.arange(6) % 3), dtype="float32"),
                  vector("b", *numpy.arange(6) / 8, dtype="float32")], 18)
    layers, got, want = ran(made)
    numpy.testing.assert_array_equal(got, want)
    assert not any(layer["tactic"].startswith("pointwise") for layer in layers), layers


def convolution(kernel=3, before=None, **attributes):
    """A pair of uint8, padding, a convolution whose sums are exact in float32, uint8."""
    w = integers((6, 8, kernel, kernel), "int8", 1) // 2
    nodes = [dequantise("q", SAME),
             helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"], axis=0)]
    source = "q_f"
    if before is not None:
        nodes.append(helper.make_node("Pad", [source, "by"], ["p"], "pad"))
        source = "p"
    if before == "pair":
        nodes += [quantise("p", "pq", SAME), dequantise("pq", SAME)]
        source = "pq_f"
    nodes += [helper.make_node("Conv", [source, "wf", "b"], ["f"], "node", **attributes),
              quantise("f", "y", OTHER)]
    weights = [number("s", 2.0 ** -5), number("z", 117, "uint8"), number("s2", 2.0 ** -2),
               number("z2", 90, "uint8"), weight("w", w),
               vector("by", 0, 0, 0, 1, 0, 0, 2, 1),
               vector("ws", *2.0 ** -(7.0 + numpy.arange(6) % 3), dtype="float32"),
               vector("b", *numpy.arange(6) / 8, dtype="float32")]
    return model(nodes, [tensor("q", [2, 8, 12, 10], TensorProto.UINT8)],
                 [tensor("y", None, TensorProto.UINT8)], weights, 18)


def beside_convolutions(layers):
    """The tactics of launches that are not part of a convolution."""
    return [layer["tactic"] for layer in layers if not layer["tactic"].startswith("conv")]


PADDED = {
    "sides": dict(pads=[1, 0, 1, 2], strides=[2, 1]),
    "same": dict(auto_pad="SAME_UPPER", strides=[2, 2]),
    "a Pad": dict(before="floats"),
    "a Pad in a pair": dict(before="pair", pads=[1, 1, 1, 1]),
    "one element": dict(kernel=1, before="pair"),
}


@pytest.mark.parametrize("name", PADDED)
def test_convolutions_pad_integers(name):
    """The zero point is a tensor of the file: a refit may change it."""
    made = convolution(**PADDED[name])
    layers, got, want = ran(made)
    numpy.testing.assert_array_equal(got, want)
    assert len(numpy.unique(got)) > 20
    # A window of one element reads its input as it lies: bytes with their zero point around.
    assert beside_convolutions(layers) == (["pad_flip_roll"] if name == "one element" else [])
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    for initial in made.graph.initializer:
        if initial.name == "z":
            initial.CopyFrom(number("z", 3, "uint8"))
    session.refit(made)
    feed = {"q": integers((2, 8, 12, 10), "uint8", 0)}
    numpy.testing.assert_array_equal(session.run(None, feed)[0], wanted(made, feed)[0])
    report = tv.dry_run(made, [feed["q"]])
    outcomes = [t["outcome"] for engine in report.engines for t in engine["quantised"]]
    of_convolutions = outcomes.count("multiplied as integers by 1 convolution")
    assert of_convolutions == 2, outcomes  # input and weight
    assert not any("computed at each call" in outcome for outcome in outcomes), outcomes


def test_operators_of_integers_pad_by_their_zero_point():
    """ConvInteger takes the padding in."""
    w = integers((6, 8, 3, 3), "int8", 1) // 2
    made = model([helper.make_node("ConvInteger", ["q", "w", "z"], ["y"], "node",
                                   pads=[1, 0, 2, 1])],
                 [tensor("q", [2, 8, 12, 10], TensorProto.UINT8)],
                 [tensor("y", None, TensorProto.INT32)],
                 [number("z", 117, "uint8"), weight("w", w)], 18)
    layers, got, want = ran(made)
    numpy.testing.assert_array_equal(got, want)
    assert beside_convolutions(layers) == []


def test_a_pad_of_integers():
    """By the tensor that the zero point is, which a refit may change."""
    made = model([helper.make_node("Pad", ["q", "by", "z"], ["p"], "pad"), dequantise("p", SAME)],
                 [tensor("q", [2, 8, 12, 10], TensorProto.UINT8)], [tensor("p_f", None)],
                 [*scales(), vector("by", 0, 0, 1, 0, 0, 0, 2, 3)], 18)
    _, got, want = ran(made)
    numpy.testing.assert_array_equal(got, want)
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    for initial in made.graph.initializer:
        if initial.name == "z":
            initial.CopyFrom(number("z", 3, "uint8"))
    session.refit(made)
    feed = {"q": integers((2, 8, 12, 10), "uint8", 0)}
    numpy.testing.assert_array_equal(session.run(None, feed)[0], wanted(made, feed)[0])
