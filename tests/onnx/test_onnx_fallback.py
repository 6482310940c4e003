"""tv.onnx.compile with ONNX Runtime for what engines do not take: results are ONNX Runtime's own,
and engines take what they can."""

import threading
import warnings
from pathlib import Path

import fallback_tests
import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

import torch_vulkan as tv

import node_tests
from onnx_models import linear, model, tensor, weight
from seeds import share_of

SHARES = 8
VERSION = node_tests.listed_cases()[1]
of_the_version = pytest.mark.skipif(
    onnx.__version__ != VERSION,
    reason=f"this is onnx {onnx.__version__}; the list is of {VERSION}, which setup.cfg asks for")
INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def expected(made, feed):
    """What ONNX Runtime alone gives."""
    session = onnxruntime.InferenceSession(made.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def compiled(made, **arguments):
    """With engines of any size."""
    return tv.onnx.compile(made, **{"optimization_level": 0, "min_block_size": 1,
                                    "fallback": "onnxruntime", **arguments})


def check(session, made, feed):
    """Runs as arrays and as tensors; gives the results."""
    want = expected(made, feed)
    got = session.run(None, feed)
    tensors = session.run(None, {name: torch.from_numpy(a.copy()) for name, a in feed.items()})
    for a, b, c in zip(got, tensors, want, strict=True):
        assert isinstance(b, torch.Tensor) and a.dtype == c.dtype and a.shape == c.shape
        numpy.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-5)
        numpy.testing.assert_array_equal(a, b.numpy())
    return got


def natives(session):
    """Operators that no engine takes; views at an engine's border are no matter."""
    return [op for _, op, reason in session.native if not reason.startswith("a view")]


# --- sizes that depend on data ---

def nonzero_in_the_middle():
    """Rows where relu(x w) is positive in the first column, times another weight."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
             helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Slice", ["r", "zero", "one", "one"], ["column"]),
             helper.make_node("NonZero", ["column"], ["places"], name="places"),
             helper.make_node("Slice", ["places", "zero", "one", "zero"], ["rows"]),
             helper.make_node("Squeeze", ["rows", "zero"], ["which"]),
             helper.make_node("Gather", ["r", "which"], ["chosen"]),
             helper.make_node("MatMul", ["chosen", "v"], ["product"], name="second"),
             helper.make_node("Tanh", ["product"], ["y"]),
             helper.make_node("Shape", ["y"], ["shape"])]
    weights = [weight("w", random(5, 7)), weight("v", random(7, 3, seed=1)),
               weight("zero", numpy.array([0])), weight("one", numpy.array([1]))]
    return model(nodes, [tensor("x", ["n", 5])], [tensor("y", None), tensor("shape", None, INT)],
                 weights)


def test_nonzero_between_two_engines():
    made = nonzero_in_the_middle()
    session = compiled(made)
    assert natives(session) == ["NonZero"] and len(session.engines) == 2
    assert all(arg.name == "x" for arg in session.get_inputs())
    for n, seed in ((11, 0), (4, 1), (1, 2), (11, 3)):
        y, shape = check(session, made, {"x": random(n, 5, seed=seed)})
        assert shape.tolist() == [*y.shape]


def test_no_element_is_found():
    made = nonzero_in_the_middle()
    y, _ = check(compiled(made), made, {"x": numpy.zeros((3, 5), numpy.float32)})
    assert y.shape == (0, 3)


def detector():
    """Boxes and scores by products, NonMaxSuppression, and the boxes that it leaves."""
    nodes = [helper.make_node("MatMul", ["x", "wb"], ["corners"]),
             helper.make_node("Sigmoid", ["corners"], ["boxes"]),
             helper.make_node("MatMul", ["x", "ws"], ["s"]),
             helper.make_node("Sigmoid", ["s"], ["t"]),
             helper.make_node("Transpose", ["t"], ["scores"], perm=[0, 2, 1]),
             helper.make_node("NonMaxSuppression",
                              ["boxes", "scores", "most", "overlap", "least"], ["kept"],
                              name="suppress"),
             helper.make_node("Slice", ["kept", "two", "three", "one"], ["column"]),
             helper.make_node("Squeeze", ["column", "one"], ["which"]),
             helper.make_node("Squeeze", ["boxes", "zero"], ["all"]),
             helper.make_node("Gather", ["all", "which"], ["left"]),
             helper.make_node("Mul", ["left", "scale"], ["scaled"]),
             helper.make_node("Exp", ["scaled"], ["y"])]
    weights = [weight("wb", random(6, 4)), weight("ws", random(6, 2, seed=1)),
               weight("most", numpy.array([29])), weight("scale", random(4, seed=2)),
               weight("overlap", numpy.array([0.4], "float32")),
               weight("least", numpy.array([0.3], "float32")),
               *(weight(name, numpy.array([value])) for name, value in
                 (("zero", 0), ("one", 1), ("two", 2), ("three", 3)))]
    return model(nodes, [tensor("x", [1, 29, 6])],
                 [tensor("y", None), tensor("kept", None, INT)], weights)


def test_a_detector_with_suppression():
    made = detector()
    session = compiled(made)
    assert natives(session) == ["NonMaxSuppression"] and len(session.engines) == 2
    sizes = {len(check(session, made, {"x": random(1, 29, 6, seed=seed)})[0])
             for seed in range(4)}
    assert len(sizes) > 1  # one engine for all of them


@pytest.mark.parametrize("op, attributes, more", [
    ("Unique", {"axis": 0}, []), ("Compress", {"axis": 0}, ["chosen"])])
def test_other_operators_of_unknown_size(op, attributes, more):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]),
             helper.make_node("Round", ["h"], ["r"]),
             helper.make_node(op, ["r", *more], ["u"], **attributes),
             helper.make_node("MatMul", ["u", "v"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    made = model(nodes, [tensor("x", [6, 3]), tensor("chosen", [6], BOOL)][:1 + len(more)],
                 [tensor("y", None)], [weight("w", random(3, 2)), weight("v", random(2, 5))])
    session = compiled(made)
    assert natives(session) == [op] and len(session.engines) == 2
    for seed in range(3):
        feed = {"x": random(6, 3, seed=seed)}
        if more:
            feed["chosen"] = random(6, seed=seed) > 0
        check(session, made, feed)


def test_topk_with_a_computed_k():
    """k is a count of the data."""
    nodes = [helper.make_node("Greater", ["x", "zero"], ["above"]),
             helper.make_node("Cast", ["above"], ["ones"], to=INT),
             helper.make_node("ReduceSum", ["ones"], ["k"], keepdims=0),
             helper.make_node("Reshape", ["k", "minus"], ["ks"]),
             helper.make_node("TopK", ["x", "ks"], ["v", "i"]),
             helper.make_node("Exp", ["v"], ["e"]), helper.make_node("Tanh", ["e"], ["y"])]
    made = model(nodes, [tensor("x", [9])], [tensor("y", None), tensor("i", None, INT)],
                 [weight("zero", numpy.float32(0)), weight("minus", numpy.array([-1]))])
    session = compiled(made)
    assert "TopK" in natives(session) and session.engines
    lengths = {check(session, made, {"x": random(9, seed=s)})[0].shape for s in range(4)}
    assert len(lengths) > 1


# --- control flow ---

def loop_of_data():
    """Doubles until the sum is past a bound, between two products."""
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "state"], ["next"]),
         helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
         helper.make_node("Less", ["sum", "bound"], ["go"])], "body",
        [tensor("i", [], INT), tensor("on", [], BOOL), tensor("state", [2, 3])],
        [tensor("go", [], BOOL), tensor("next", [2, 3])])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Exp", ["h"], ["e"]),
             helper.make_node("Loop", ["", "yes", "e"], ["last"], body=body, name="doubling"),
             helper.make_node("MatMul", ["last", "v"], ["m"]),
             helper.make_node("Abs", ["m"], ["y"])]
    return model(nodes, [tensor("x", [2, 4]), tensor("bound", [])], [tensor("y", [2, 5])],
                 [weight("w", random(4, 3)), weight("v", random(3, 5)),
                  weight("yes", numpy.array(True))])


def test_a_loop_that_data_ends():
    made = loop_of_data()
    session = compiled(made)
    assert natives(session) == ["Loop"] and len(session.engines) == 2
    ((label, _, reason),) = session.native
    assert '"doubling"' in label and "computed from data" in reason
    for bound in (1.0, 1e3, 1e5):
        check(session, made, {"x": random(2, 4), "bound": numpy.array(bound, "float32")})


def test_a_branch_that_data_chooses():
    def branch(op):  # reads a value of the graph around it
        return helper.make_graph([helper.make_node(op, ["h"], [f"{op}_out"])], op, [],
                                 [tensor(f"{op}_out", [2, 3])])

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]),
             helper.make_node("If", ["c"], ["b"], then_branch=branch("Neg"),
                              else_branch=branch("Abs")),
             helper.make_node("Exp", ["b"], ["y"])]
    made = model(nodes, [tensor("x", [2, 4]), tensor("c", [], BOOL)], [tensor("y", [2, 3])],
                 [weight("w", random(4, 3))])
    session = compiled(made)
    assert natives(session) == ["If"] and len(session.engines) == 2
    for c in (True, False):
        check(session, made, {"x": random(2, 4), "c": numpy.array(c)})


# --- inputs that set shapes ---

def runtime_axes():
    nodes = [helper.make_node("Exp", ["x"], ["e"]),
             helper.make_node("ReduceSum", ["e", "axes"], ["s"], keepdims=1, name="sum"),
             helper.make_node("Add", ["s", "one"], ["t"]), helper.make_node("Log", ["t"], ["y"])]
    return model(nodes, [tensor("x", [2, 3, 4]), tensor("axes", ["count"], INT)],
                 [tensor("y", None)], [weight("one", numpy.float32(1))])


def test_axes_that_a_run_gives():
    made = runtime_axes()
    session = compiled(made, max_shape_values=2)
    assert session.engines == []  # until there are values
    x = random(2, 3, 4)
    for axes in ([1], [0, 2], [1], [-1], [0]):
        check(session, made, {"x": x, "axes": numpy.array(axes)})
    # Two values have an engine for all of the model, others one or more beside the native node.
    assert natives(session) == ["ReduceSum"]
    ((_, _, reason),) = session.native
    assert "computed from data" in reason
    count = len(session.engines)
    check(session, made, {"x": x, "axes": numpy.array([2])})
    assert len(session.engines) == count >= 3


@pytest.mark.parametrize("name", ["k", "other"])
def test_constants_that_do_not_fit(name):
    made = model([helper.make_node("Add", ["x", "k"], ["y"])],
                 [tensor("x", [3]), tensor("k", [3])], [tensor("y", None)])
    with pytest.raises(ValueError, match=name):
        compiled(made, constants={name: numpy.ones(3, numpy.uint16)})


def test_values_that_cannot_be_computed_take_no_place():
    made = model([helper.make_node("TopK", ["x", "k"], ["values", "places"])],
                 [tensor("x", ["n"]), tensor("k", [1], INT)],
                 [tensor("values", None), tensor("places", None, INT)])
    session = compiled(made, max_shape_values=2)
    for k in (5, 6, 7):
        with pytest.raises(ValueError):
            session.run(None, {"x": random(3), "k": numpy.array([k])})
    for k in (1, 2, 1):
        check(session, made, {"x": random(3), "k": numpy.array([k])})
    assert len(session.engines) == 2 and natives(session) == []


def test_no_value_gets_an_engine():
    made = runtime_axes()
    session = compiled(made, max_shape_values=0)
    for axes in ([1], [0, 2]):
        check(session, made, {"x": random(2, 3, 4), "axes": numpy.array(axes)})
    assert natives(session) == ["ReduceSum"]


def test_a_value_that_is_wrong():
    session = compiled(runtime_axes())
    with pytest.raises(ValueError, match="axis|axes"):
        session.run(None, {"x": random(2, 3, 4), "axes": numpy.array([7])})
    check(session, runtime_axes(), {"x": random(2, 3, 4), "axes": numpy.array([2])})


# --- what goes between ---

def test_arithmetic_on_sizes_reaches_native_nodes():
    """A shape that is known from sizes alone has no node in an engine."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]),
             helper.make_node("Shape", ["r"], ["s"]),
             helper.make_node("Gather", ["s", "zero"], ["n"]),
             helper.make_node("Mul", ["n", "two"], ["m"]),
             helper.make_node("NonMaxSuppression", ["boxes", "scores", "m"], ["kept"]),
             helper.make_node("Exp", ["r"], ["y"])]
    made = model(nodes, [tensor("x", ["n", 3]), tensor("boxes", [1, 9, 4]),
                         tensor("scores", [1, 1, 9])],
                 [tensor("y", None), tensor("kept", None, INT), tensor("m", None, INT)],
                 [weight("zero", numpy.array([0])), weight("two", numpy.array([2]))])
    session = compiled(made)
    corners = numpy.sort(numpy.random.default_rng(0).random((1, 9, 2, 2), "float32"), axis=2)
    for n in (1, 3):
        check(session, made, {"x": random(n, 3), "boxes": corners.reshape(1, 9, 4),
                              "scores": random(1, 1, 9)})


@pytest.mark.parametrize("dtype", ["uint16", "float64", "uint64", "bfloat16", "float8_e4m3fn",
                                   "int4"])
def test_types_that_engines_do_not_hold(dtype):
    kind = helper.np_dtype_to_tensor_dtype(
        onnx.helper.tensor_dtype_to_np_dtype(getattr(TensorProto, {
            "float64": "DOUBLE", "float8_e4m3fn": "FLOAT8E4M3FN"}.get(dtype, dtype.upper()))))
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["f", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Clip", ["r", "", "seven"], ["c"]),
             helper.make_node("Cast", ["c"], ["y"], to=kind)]
    made = model(nodes, [tensor("x", [2, 3], kind)], [tensor("y", [2, 4], kind)],
                 [weight("w", random(3, 4)), weight("seven", numpy.float32(7))], opset=21)
    x = numpy.array([[0, 1, 2], [3, 1, 0]]).astype(helper.tensor_dtype_to_np_dtype(kind))
    session = compiled(made)
    (y,) = session.run(None, {"x": x})
    want = numpy.clip(x.astype("float32") @ random(3, 4), 0, 7).astype(x.dtype)
    assert y.dtype == x.dtype
    numpy.testing.assert_allclose(y.astype("float64"), want.astype("float64"), rtol=1e-6)
    assert session.engines


def test_strings_and_sequences():
    nodes = [helper.make_node("SequenceConstruct", ["r", "x"], ["parts"]),
             helper.make_node("ConcatFromSequence", ["parts"], ["c"], axis=0),
             helper.make_node("Exp", ["c"], ["y"])]
    nodes.insert(0, helper.make_node("Relu", ["x"], ["r"]))
    made = model(nodes, [tensor("x", [2, 3])], [tensor("y", None)])
    session = compiled(made)
    check(session, made, {"x": random(2, 3)})
    assert session.engines and "SequenceConstruct" in natives(session)


def test_weights_beside_the_file(tmp_path):
    """Of a native node, of two engines."""
    onnx.save(loop_of_data(), tmp_path / "net.onnx", save_as_external_data=True,
              location="net.data", size_threshold=0)
    session = compiled(tmp_path / "net.onnx")
    feed = {"x": random(2, 4), "bound": numpy.array(100, "float32")}
    numpy.testing.assert_allclose(session.run(None, feed)[0], expected(loop_of_data(), feed)[0],
                                  rtol=1e-5)


def test_constants_that_are_nodes():
    """Large ones are tensors of the file for the importer, and nodes for ONNX Runtime."""
    table = numpy.arange(200.0, dtype="float32").reshape(100, 2)
    value = onnx.numpy_helper.from_array(table, "table")
    nodes = [helper.make_node("Constant", [], ["t"], value=value),
             helper.make_node("Identity", ["t"], ["u"]),
             helper.make_node("Compress", ["u", "chosen"], ["c"], axis=0),
             helper.make_node("Exp", ["x"], ["e"]),
             helper.make_node("Mul", ["c", "e"], ["y"])]
    made = model(nodes, [tensor("x", [2]), tensor("chosen", [100], BOOL)], [tensor("y", None)])
    check(compiled(made), made, {"x": random(2), "chosen": random(100) > 1})


def test_bad_feeds():
    session = compiled(nonzero_in_the_middle())
    for feed, message in (({}, "'x' is missing"), ({"x": random(2, 5), "z": 1}, "no input 'z'"),
                          ({"x": random(2, 5).astype("float64")}, "float64"),
                          ({"x": random(2, 6)}, "tv.onnx"), ({"x": random(5)}, "tv.onnx")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=message):
                session.run(None, feed)
    with pytest.raises(ValueError, match="no output 'z'"):
        session.run(["z"], {"x": random(2, 5)})


# --- the session ---

def test_refit():
    made, other = nonzero_in_the_middle(), nonzero_in_the_middle()
    other.graph.initializer[0].CopyFrom(weight("w", random(5, 7, seed=9)))
    session = compiled(made)
    session.refit(other)
    check(session, other, {"x": random(6, 5)})
    del other.graph.node[8:]
    other.graph.output[0].name = "product"
    del other.graph.output[1:]
    with pytest.raises(ValueError, match="another network"):
        session.refit(other)


def test_threads():
    made = detector()
    session = compiled(made)
    feeds = [{"x": random(1, 29, 6, seed=seed)} for seed in range(4)]
    wanted = [expected(made, feed)[0] for feed in feeds]
    wrong = []

    def work(k):
        for _ in range(8):
            y = session.run(["y"], feeds[k])[0]
            if y.shape != wanted[k].shape or not numpy.allclose(y, wanted[k], rtol=1e-4):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_several_engines_are_no_engine():
    session = compiled(detector())
    with pytest.raises(ValueError, match="engines"):
        session.engine  # noqa: B018
    with tv.profile(session) as profile:
        session.run(None, {"x": random(1, 29, 6)})
    assert profile.table()
    whole = tv.onnx.compile(linear()[0], optimization_level=0)
    assert whole.engines == [whole.engine] and whole.native == []


def test_what_the_settings_say():
    made = nonzero_in_the_middle()
    for arguments in ({"fallback": "none"}, {"require_full_compilation": True}):
        with pytest.raises(tv.UnsupportedError, match="NonZero|places"):
            compiled(made, **arguments)
    with pytest.raises(ValueError, match="'torch'.*'onnxruntime'"):
        compiled(made, fallback="torch")
    with pytest.raises(ValueError, match="max_shape_values"):
        compiled(made, max_shape_values=-1)
    with pytest.warns(UserWarning, match="no engine takes"):
        small = compiled(made, min_block_size=1000)
    assert small.engines == [] and len(small.native) > 5
    assert any("fewer than min_block_size" in reason for _, _, reason in small.native)
    check(small, made, {"x": random(3, 5)})
    left = compiled(made, torch_executed_ops=["aten::tanh"])
    assert sorted(natives(left)) == ["NonZero", "Tanh"]
    check(left, made, {"x": random(3, 5)})


def test_what_nobody_runs():
    made = model([helper.make_node("Nonsense", ["x"], ["y"], name="this one")], [tensor("x", [4])],
                 [tensor("y", [4])])
    with pytest.raises(tv.UnsupportedError, match="Nonsense"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(made)


def test_what_only_the_reference_runs():
    """ONNX Runtime's CPU provider has no such optimizer step."""
    case = node_tests.cases()["test_adam"]
    with pytest.warns(UserWarning, match="reference evaluator"):
        session = compiled(case.model)
    assert session.engines == []


# --- the node tests ---

@of_the_version
@pytest.mark.parametrize("name", share_of(sorted(node_tests.listed()), SHARES))
def test_node(name):
    expect(name)


def expect(name):
    """A case of the list may pass: a draw may be the expected one, and Pillow may be installed."""
    result = fallback_tests.run(name)
    listed = fallback_tests.listed().get(name, "pass")
    assert result.status in (listed, "pass"), f"{name}: {result.reason}"


@of_the_version
@pytest.mark.slow
def test_every_node():
    for name in node_tests.listed():
        expect(name)


@of_the_version
def test_the_list_is_short():
    """And nothing on it is wrong: it is refused, an error of ONNX Runtime's, or drawn at random."""
    cases, listed = node_tests.cases(), fallback_tests.listed()
    node = [name for name, case in cases.items() if case.kind == "node"]
    passed = sum(name not in listed for name in node)
    assert len(node) == 1884 and passed >= 1850
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    said = f"Of the {len(node)} node tests of onnx {VERSION} {passed} pass"
    assert said in " ".join(page.split())
    assert set(listed.values()) <= {"refused", "failed", "random"}
