"""ONNX Runtime's provider on tensors without elements: a batch of no rows, a cache that is empty at
a decoder's first call."""

import numpy
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper
from provider_tests import CPU, NAME, nodes_of, session

from onnx_models import model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")
INT = TensorProto.INT64
ROWS = ["n", 8]
IMAGES = ["n", 3, 12, 12]


def random(*shape):
    return numpy.random.default_rng(7).standard_normal(shape).astype(numpy.float32)


def node(op, reads, writes, **attributes):
    return helper.make_node(op, reads, writes, **attributes)


def check(made, feeds, engines=1, **options):
    opened = session(made, **options)
    assert len(nodes_of(opened)[NAME]) == engines, nodes_of(opened)
    cpu = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU])
    for feed in feeds:
        for a, b in zip(opened.run(None, feed), cpu.run(None, feed), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def rows(op, out, *, reads=(), weights=(), **attributes):
    """Tanh and one operator, on rows of 8."""
    nodes = [node("Tanh", ["x"], ["t"]), node(op, ["t", *reads], ["y"], **attributes)]
    return model(nodes, [tensor("x", ROWS)], [tensor("y", out)], weights)


@pytest.mark.parametrize("made", [
    rows("MatMul", ["n", 5], reads=["w"], weights=[weight("w", random(8, 5))]),
    rows("Softmax", ROWS), rows("Softmax", ROWS, axis=0),
    rows("LayerNormalization", ROWS, reads=["s"], weights=[weight("s", random(8))]),
    rows("ReduceSum", [1, 8], reads=["a"], weights=[weight("a", numpy.array([0]))]),
    rows("ReduceSum", ["n", 1], reads=["a"], weights=[weight("a", numpy.array([1]))]),
    rows("ReduceMean", ["n", 1], reads=["a"], weights=[weight("a", numpy.array([1]))]),
    rows("Transpose", [8, "n"]), rows("Concat", ["m", 8], reads=["x", "t"], axis=0),
    rows("Concat", ["m", 8], reads=["w"], weights=[weight("w", random(3, 8))], axis=0),
    rows("Reshape", ["n", 2, 4], reads=["s"], weights=[weight("s", numpy.array([-1, 2, 4]))]),
    rows("Flatten", ["n", 8]), rows("CumSum", ROWS, reads=["a"],
                                    weights=[weight("a", numpy.array(0))]),
    rows("Slice", ["n", 4], reads=["b", "e", "b1"], weights=[
        weight("b", numpy.array([2])), weight("e", numpy.array([6])),
        weight("b1", numpy.array([1]))]),
    rows("ReduceMax", [1, 8], reads=["a"], weights=[weight("a", numpy.array([0]))]),
    rows("ReduceProd", [1, 8], reads=["a"], weights=[weight("a", numpy.array([0]))]),
    rows("Reshape", ["m", 4], reads=["s"], weights=[weight("s", numpy.array([-1, 4]))]),
    rows("Gemm", ["n", 5], reads=["w", "b"],
         weights=[weight("w", random(5, 8)), weight("b", random(5))], transB=1),
], ids=lambda made: made.graph.node[1].op_type)
def test_no_rows(made):
    check(made, [{"x": random(n, 8)} for n in (0, 3, 0, 1)])


def test_no_images():
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
             node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", ["p"], ["g"]), node("Flatten", ["g"], ["f"]),
             node("Gemm", ["f", "v"], ["y"])]
    made = model(nodes, [tensor("x", IMAGES)], [tensor("y", ["n", 5])],
                 [weight("w", random(6, 3, 3, 3)), weight("v", random(6, 5))])
    check(made, [{"x": random(n, 3, 12, 12)} for n in (2, 0)])


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3)])
def test_no_sequences(op, gates):
    nodes = [node(op, ["x", "w", "r"], ["y"], hidden_size=4)]
    made = model(nodes, [tensor("x", [5, "n", 3])], [tensor("y", [5, 1, "n", 4])],
                 [weight("w", random(1, 4 * gates, 3)), weight("r", random(1, 4 * gates, 4))])
    check(made, [{"x": random(5, 2, 3)}])
    # The CPU provider ends the process here.
    assert session(made).run(None, {"x": random(5, 0, 3)})[0].shape == (5, 1, 0, 4)


def decoder():
    """Attention whose cache grows."""
    nodes = [node("MatMul", ["q", "w"], ["k"]), node("Concat", ["past", "k"], ["present"], axis=1),
             node("Transpose", ["present"], ["kt"], perm=[0, 2, 1]),
             node("MatMul", ["q", "kt"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
             node("MatMul", ["p", "present"], ["y"])]
    return model(nodes, [tensor("q", ["b", "t", 8]), tensor("past", ["b", "p", 8])],
                 [tensor("y", ["b", "t", 8]), tensor("present", ["b", "all", 8])],
                 [weight("w", random(8, 8))])


def calls(sizes):
    return [{"q": random(1, t, 8), "past": random(1, p, 8)} for t, p in sizes]


def test_an_empty_cache():
    check(decoder(), calls([(4, 0), (1, 4), (1, 0)]))


def test_what_products_sum_over_is_not_empty():
    """It would leave them slow tactics alone; a profile that begins at 0 asks for that."""
    made = rows("Einsum", [8, 8], reads=["x"], equation="ni,nj->ij")
    opened = session(made)
    with pytest.raises(Exception, match='input "x" dimension 0: got 0, want 1 or more'):
        opened.run(None, {"x": random(0, 8)})
    check(made, [{"x": random(n, 8)} for n in (0, 2)], profile_min_shapes="x:0x8",
          profile_opt_shapes="x:2x8", profile_max_shapes="x:4x8")


def test_an_empty_cache_in_a_profile():
    check(decoder(), calls([(4, 0), (1, 4)]), profile_min_shapes="q:1x1x8,past:1x0x8",
          profile_opt_shapes="q:1x1x8,past:1x8x8", profile_max_shapes="q:1x4x8,past:1x16x8")


def test_no_rows_where_an_input_sets_shapes():
    nodes = [node("Tanh", ["x"], ["t"]), node("ReduceSum", ["t", "axes"], ["y"])]
    made = model(nodes, [tensor("x", ROWS), tensor("axes", [1], INT)], [tensor("y", ["a", "b"])])
    check(made, [{"x": random(n, 8), "axes": numpy.array([a])} for n in (3, 0) for a in (0, 1)])
