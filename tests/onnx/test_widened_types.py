"""Integers of a file whose type engines do not hold - uint16, uint32 and those below 8 bits - are
read into a wider one where that cannot show, and their nodes are left out elsewhere."""

import numpy
import onnx
import provider_tests
import pytest
from onnx import TensorProto, helper

import torch_vulkan as tv
from torch_vulkan._native import C

from onnx_models import model, tensor, weight

onnxruntime = pytest.importorskip("onnxruntime")
INT = TensorProto.INT64
KINDS = {"uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
         "uint64": TensorProto.UINT64}
needs_provider = pytest.mark.skipif(not provider_tests.is_built(),
                                    reason="the provider is not built")


def wanted(made, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"]).run(None, feed)


def table(dtype):
    end = numpy.iinfo(dtype).max
    return weight("w", numpy.array([[2, end], [3, end - 1], [6, end // 2 + 1]], dtype))


def gathered(dtype):
    """Rows of the file's as a result, beside what engines compute."""
    return model([helper.make_node("Gather", ["w", "i"], ["rows"]),
                  helper.make_node("Exp", ["x"], ["y"])],
                 [tensor("i", ["n"], INT), tensor("x", [4])],
                 [tensor("rows", ["n", 2], KINDS[dtype]), tensor("y", [4])], [table(dtype)])


def computed(dtype, op):
    """What wraps at the width of its type, and is float afterwards."""
    nodes = [helper.make_node("Gather", ["w", "i"], ["rows"]),
             helper.make_node(op, ["rows", "s"], ["c"], direction="LEFT") if op == "BitShift" else
             helper.make_node(op, ["rows"], ["c"]),
             helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["f", "x"], ["y"])]
    return model(nodes, [tensor("i", ["n"], INT), tensor("x", [2])], [tensor("y", ["n", 2])],
                 [table(dtype), weight("s", numpy.array(3, dtype))])


def chosen(dtype, form):
    made = gathered(dtype) if form == "result" else computed(dtype, form)
    feed = {"i": numpy.array([1, 0, 2, 1]),
            "x": numpy.linspace(-1, 1, 4 if form == "result" else 2, dtype="float32")}
    return made, feed


FORMS = pytest.mark.parametrize("dtype, form", [
    *((dtype, "result") for dtype in KINDS), ("uint16", "BitwiseNot"), ("uint32", "BitwiseNot"),
    ("uint32", "BitShift"), ("uint64", "BitShift")])


def same(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=1e-6)


@needs_provider
@FORMS
def test_in_the_provider(dtype, form):
    made, feed = chosen(dtype, form)
    onnx.checker.check_model(made)
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        opened = provider_tests.session(made, level=level)
        same(opened.run(None, feed), wanted(made, feed))
        assert provider_tests.NAME in provider_tests.nodes_of(opened)


@FORMS
def test_in_engines_alone(dtype, form):
    made, feed = chosen(dtype, form)
    if form != "result" and dtype != "uint64":  # computed in the wider type
        session = tv.onnx.compile(made, optimization_level=0, fallback="none")
        return same(session.run(None, feed), wanted(made, feed))
    with pytest.raises(tv.UnsupportedError, match=f"type {dtype}"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")


@FORMS
def test_with_the_runtime_for_the_rest(dtype, form):
    made, feed = chosen(dtype, form)
    session = tv.onnx.compile(made, optimization_level=0, min_block_size=1,
                              fallback="onnxruntime")
    same(session.run(None, feed), wanted(made, feed))


def test_results_of_bodies():
    """The branch is known, and its result is of the file."""
    then = helper.make_graph([helper.make_node("Identity", ["w"], ["t"])], "then", [],
                             [tensor("t", None, TensorProto.UINT32)])
    other = helper.make_graph([helper.make_node("Identity", ["w"], ["o"])], "other", [],
                              [tensor("o", None, TensorProto.UINT32)])
    made = model([helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
                  helper.make_node("Exp", ["x"], ["y"])],
                 [tensor("x", [4])],
                 [tensor("b", [3, 2], TensorProto.UINT32), tensor("y", [4])],
                 [table("uint32"), weight("c", numpy.array(True))])
    with pytest.raises(tv.UnsupportedError, match="type uint32"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")


def test_a_tensor_of_the_file_as_a_result():
    made = model([helper.make_node("Exp", ["x"], ["y"])], [tensor("x", [4])],
                 [tensor("y", [4]), tensor("w", [3, 2], TensorProto.UINT16)], [table("uint16")])
    with pytest.raises(tv.UnsupportedError, match="type uint16"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")


def dequantised(move):
    """Weights and zero points of 16 bits, in another order or not."""
    nodes = [helper.make_node("Transpose", ["w"], ["v"])] if move else []
    nodes += [helper.make_node("DequantizeLinear", ["v" if move else "w", "s", "z"], ["d"]),
              helper.make_node("MatMul", ["x", "d"], ["y"])]
    rng = numpy.random.default_rng(0)
    return model(nodes, [tensor("x", [3, 6])], [tensor("y", [3, 6])],
                 [weight("w", rng.integers(0, 65536, (6, 6)).astype("uint16")),
                  weight("s", numpy.float32(1e-4)), weight("z", numpy.uint16(40000))], opset=21)


@pytest.mark.parametrize("move", [False, True])
def test_the_width_does_not_show_in_what_is_dequantised(move):
    made = dequantised(move)
    feed = {"x": numpy.random.default_rng(1).standard_normal((3, 6)).astype("float32")}
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    numpy.testing.assert_allclose(session.run(None, feed)[0], wanted(made, feed)[0], rtol=1e-5)


def test_the_width_does_not_show_in_what_is_cast():
    made = model([helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
                  helper.make_node("Mul", ["f", "x"], ["y"]),
                  helper.make_node("Size", ["w"], ["n"]),
                  helper.make_node("Cast", ["w"], ["i"], to=TensorProto.INT64),
                  helper.make_node("Add", ["i", "k"], ["j"])],
                 [tensor("x", [2]), tensor("k", [2], INT)],
                 [tensor("y", [3, 2]), tensor("n", [], INT), tensor("j", [3, 2], INT)],
                 [table("uint32")])
    feed = {"x": numpy.array([0.5, 2], "float32"), "k": numpy.array([1, -1])}
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    same(session.run(None, feed), wanted(made, feed))


@needs_provider
@pytest.mark.parametrize("kind, values", [(TensorProto.INT2, [-2, -1, 0, 1]),
                                          (TensorProto.UINT2, [0, 1, 2, 3]),
                                          (TensorProto.INT4, [-8, -1, 0, 7]),
                                          (TensorProto.UINT4, [0, 7, 8, 15])])
def test_integers_of_few_bits_in_the_provider(kind, values):
    """ONNX Runtime numbers those of 2 bits otherwise than ONNX does."""
    made = model([helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
                  helper.make_node("Add", ["d", "x"], ["y"])],
                 [tensor("x", [4])], [tensor("y", [4])],
                 [helper.make_tensor("w", kind, [4], values), weight("s", numpy.float32(0.5))],
                 opset=25)
    opened = provider_tests.session(made, level="ORT_DISABLE_ALL")
    (got,) = opened.run(None, {"x": numpy.zeros(4, "float32")})
    numpy.testing.assert_array_equal(got, numpy.array(values) * 0.5)
    assert "DequantizeLinear" in sum(provider_tests.nodes_of(opened)[provider_tests.NAME], [])


def test_a_result_of_unknown_type_is_not_handed_on_in_a_wider_one():
    """Of a file that says no types: whoever reads it outside of an engine would get int32."""
    made = model([helper.make_node("Cast", ["x"], ["q"], to=TensorProto.UINT16),
                  helper.make_node("Unique", ["q"], ["y"])],
                 [tensor("x", [4])], [tensor("y", ["n"], TensorProto.UINT16)])
    given = {"inputs": {}, "constants": {}, "directory": "", "left_out": {}}
    cast, *_ = C.import_onnx_bytes(made.SerializeToString(), given).nodes
    assert cast[-1] == "output 0 is of another type in an engine"
