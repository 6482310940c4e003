"""Inputs that set shapes, in ONNX Runtime's provider: an engine for each of their values."""

import threading

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper
from provider_tests import CPU, NAME, nodes_of, session
from test_provider import check, in_process, random

from onnx_models import model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")
INT = TensorProto.INT64


def ints(*values):
    return numpy.array(values, numpy.int64)


def scalar(value):
    return numpy.array(value, numpy.int64)


def floats(*values):
    return numpy.array(values, numpy.float32)


def of_node(op, feeds, outputs=("y",), rank=None, types=None, **attributes):
    """A model of one node, its operands named and shaped as those of the first feed."""
    inputs = [tensor(name, list(value.shape), helper.np_dtype_to_tensor_dtype(value.dtype))
              for name, value in feeds[0].items() if value is not None]
    names = [name if value is not None else "" for name, value in feeds[0].items()]
    made = [tensor(name, rank and [None] * rank, dtype)
            for name, dtype in zip(outputs, types or [TensorProto.FLOAT] * len(outputs),
                                   strict=True)]
    return model([helper.make_node(op, names, list(outputs), **attributes)], inputs, made)


X = random(2, 3, 4)
CASES = {
    "Reshape": (dict(op="Reshape"), [{"x": X, "shape": ints(*s)} for s in (
        (4, 6, 1), (-1, 2, 1), (2, 3, 4), (0, 4, -1), (1, 24, 1))]),
    "Expand": (dict(op="Expand"), [{"x": random(3, 1), "shape": ints(*s)} for s in (
        (3, 5), (3, 1), (1, 1), (1, 7))]),
    "Tile": (dict(op="Tile"), [{"x": X, "repeats": ints(*r)} for r in (
        (1, 2, 3), (1, 1, 1), (2, 1, 1))]),
    "Slice": (dict(op="Slice"), [
        {"x": X, "starts": ints(a), "ends": ints(b), "axes": ints(c), "steps": ints(d)}
        for a, b, c, d in ((0, 2, 2, 1), (1, 3, -1, 1), (0, 99, 0, 1), (-1, -9, 1, -1),
                           (0, 4, 2, 2), (3, 0, 2, -2))]),
    "TopK": (dict(op="TopK", outputs=("y", "i"), types=(TensorProto.FLOAT, INT)),
             [{"x": X, "k": ints(k)} for k in (1, 3, 4, 2)]),
    "Pad": (dict(op="Pad"), [{"x": X, "pads": ints(*p)} for p in (
        (0, 0, 0, 0, 0, 1), (1, 0, 2, 0, 1, 0), (0, 0, 0, 0, 0, 0), (0, 0, -1, 0, 0, 0))]),
    "Resize scales": (dict(op="Resize", mode="nearest"), [
        {"x": random(1, 2, 4, 4), "roi": None, "scales": floats(1, 1, *s)}
        for s in ((2, 2), (1, 1), (0.5, 1.5))]),
    "Resize sizes": (dict(op="Resize", mode="linear"), [
        {"x": random(1, 2, 4, 4), "roi": None, "scales": None, "sizes": ints(1, 2, *s)}
        for s in ((8, 6), (4, 4), (3, 9))]),
    "ReduceSum": (dict(op="ReduceSum"), [{"x": X, "axes": ints(*a)} for a in (
        (0, 1), (1, 2), (-1, 0))]),
    "CumSum": (dict(op="CumSum"), [{"x": X, "axis": scalar(a)} for a in (0, 1, 2, -1)]),
    "Unsqueeze": (dict(op="Unsqueeze"), [{"x": X, "axes": ints(*a)} for a in ((0, 1), (1, -1))]),
}


@pytest.mark.parametrize("name", CASES)
def test_results_follow_the_value(name):
    """One session; each value twice, the second time in another order."""
    options, feeds = CASES[name]
    made = of_node(feeds=feeds, **options)
    opened = session(made)
    assert [*nodes_of(opened)] == [NAME]
    for feed in (*feeds, *reversed(feeds)):
        given = {key: value for key, value in feed.items() if value is not None}
        check(made, given, opened)


def network():
    """A reshape by an input amid work with weights."""
    w = random(64, 64, seed=3)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]),
             helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Reshape", ["r", "shape"], ["s"]),
             helper.make_node("Softmax", ["s"], ["y"])]
    return model(nodes, [tensor("x", ["batch", 64]), tensor("shape", [2], INT)],
                 [tensor("y", [None, None])], [weight("w", w)])


def test_sizes_and_values_vary():
    made = network()
    opened = session(made)
    assert [*nodes_of(opened)] == [NAME] and len(nodes_of(opened)[NAME]) == 1
    for batch in (2, 6):
        for shape in ((-1, 32), (16, -1), (batch, 64), (-1, 64)):
            check(made, {"x": random(batch, 64, seed=batch), "shape": ints(*shape)}, opened)


def test_engines_beyond_the_bound_are_replaced():
    made = network()
    opened = session(made, max_shape_values=2)
    for columns in (1, 2, 4, 8, 1, 2, 8, 4):
        check(made, {"x": random(4, 64), "shape": ints(-1, columns)}, opened)


def test_threads_with_other_values():
    """More values than engines, so that engines are replaced under those that run them."""
    opened = session(network(), max_shape_values=2)
    reference = onnx_reference(network())
    faults = []

    def work(seed):
        try:
            for i in range(12):
                feed = {"x": random(4, 64, seed=seed), "shape": ints(-1, 2 ** ((seed + i) % 5))}
                numpy.testing.assert_allclose(opened.run(None, feed)[0],
                                              reference.run(None, feed)[0], rtol=1e-4, atol=1e-5)
        except Exception as error:  # of many types; told by the test
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def onnx_reference(made):
    return onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU])


def test_a_value_that_no_engine_takes_is_named():
    options, feeds = CASES["TopK"]
    opened = session(of_node(feeds=feeds, **options))
    with pytest.raises(Exception, match=r'"k" = \[9\].*max_shape_values=0'):
        opened.run(None, {"x": X, "k": ints(9)})
    check(of_node(feeds=feeds, **options), feeds[0], opened)


def test_none_without_engines_by_value():
    options, feeds = CASES["Tile"]
    made = of_node(feeds=feeds, **options)
    opened = session(made, max_shape_values=0)
    assert NAME not in nodes_of(opened)
    check(made, feeds[0], opened)


@pytest.mark.parametrize("text", ["-1", "many", "1234567", ""])
def test_the_bound_is_a_number(text):
    with pytest.raises(Exception, match="max_shape_values"):
        session(network(), max_shape_values=text)


def test_a_context_model_leaves_them_to_others(tmp_path):
    """Engines that do not exist yet cannot be stored."""
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    opened = session(path, {"ep.context_enable": "1", "ep.context_embed_mode": "1",
                            "ep.context_file_path": str(tmp_path / "ctx.onnx")})
    assert CPU in nodes_of(opened)


def test_memory_of_replaced_engines_is_given_back(tmp_path):
    onnx.save(network(), tmp_path / "net.onnx")
    grown = in_process("""
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
register()
opened = onnxruntime.InferenceSession(sys.argv[1], providers=[
    (NAME, dict(builder_optimization_level=0, min_subgraph_size=1, max_shape_values=1)),
    "CPUExecutionProvider"], enable_fallback=0)
x = numpy.ones((4, 64), numpy.float32)
def run(times):
    for i in range(times):
        opened.run(None, {"x": x, "shape": numpy.array([-1, 2 ** (i % 7)])})
run(42)
before = resident()
run(84)
print(resident() - before)
""", tmp_path / "net.onnx")
    assert int(grown) < 24 * 2**20
