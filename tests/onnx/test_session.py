"""tv.onnx.compile: sessions, dynamic sizes, refits, the cache, settings, what is refused."""

import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import torch_vulkan as tv

import onnx_models
from onnx_models import linear, model, tensor, weight


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def test_run_as_a_session_of_onnx_runtime(tmp_path):
    made, reference = linear()
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    session = tv.onnx.compile(path)
    (given,), (gives,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", ["batch", 8])
    assert (gives.name, gives.type, gives.shape) == ("y", "tensor(float)", ["batch", 5])
    for batch in (1, 3, 7):
        x = random(batch, 8)
        (y,) = session.run(["y"], {"x": x})
        assert isinstance(y, numpy.ndarray)
        numpy.testing.assert_allclose(y, reference(x), rtol=1e-5, atol=1e-5)


def test_values_of_onnx_runtime():
    runtime = pytest.importorskip("onnxruntime")
    made, reference = linear()
    session = tv.onnx.compile(made, optimization_level=0)
    assert session.get_providers() == ["VulkanExecutionProvider"]
    x = random(3, 8)
    (y,) = session.run_with_ort_values(["y"], {"x": runtime.OrtValue.ortvalue_from_numpy(x)})
    assert isinstance(y, runtime.OrtValue)
    numpy.testing.assert_allclose(y.numpy(), reference(x), rtol=1e-4, atol=1e-5)
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("NonZero", ["t"], ["y"])]
    made = model(nodes, [tensor("x", [6])], [tensor("y", [1, "n"], TensorProto.INT64)])
    session = tv.onnx.compile(made, min_block_size=1, optimization_level=0)
    assert session.get_providers() == ["VulkanExecutionProvider", "CPUExecutionProvider"]


def test_call_with_tensors_and_arrays():
    made, reference = linear()
    session = tv.onnx.compile(made, inputs={"x": (3, 8)})
    x = random(3, 8)
    y = session(torch.from_numpy(x))
    assert isinstance(y, torch.Tensor)
    numpy.testing.assert_allclose(y.numpy(), reference(x), rtol=1e-5, atol=1e-5)
    assert isinstance(session(x=x), numpy.ndarray)


@pytest.mark.parametrize("inputs", [
    [tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8))],
    {"x": tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(16, 8))}])
def test_ranges(inputs):
    made, reference = linear()
    session = tv.onnx.compile(made, inputs=inputs)
    x = random(16, 8)
    numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="17"):
        session(random(17, 8))


def test_wrong_feeds():
    session = tv.onnx.compile(linear()[0])
    with pytest.raises(ValueError, match="'x' is missing"):
        session.run(None, {})
    with pytest.raises(ValueError, match="no input 'z'"):
        session.run(None, {"x": random(1, 8), "z": random(1)})
    with pytest.raises(ValueError, match="no output 'z'"):
        session.run(["z"], {"x": random(1, 8)})
    with pytest.raises(ValueError, match="float64"):
        session.run(None, {"x": random(1, 8).astype(numpy.float64)})


def test_dimensions_go_by_the_files_names():
    """Also by such as the compiler's own symbols have."""
    made = model([helper.make_node("Transpose", ["x"], ["y"])],
                 [tensor("x", ["s1", "s0"])], [tensor("y", ["s0", "s1"])])
    session = tv.onnx.compile(made, optimization_level=0)
    assert session.get_inputs()[0].shape == ["s1", "s0"]
    assert session.get_outputs()[0].shape == ["s0", "s1"]
    made = model([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)],
                 [tensor("x", ["tokens0", 2])], [tensor("y", None)])
    session = tv.onnx.compile(made, optimization_level=0)
    assert session.get_inputs()[0].shape == ["tokens0", 2]
    assert session.get_outputs()[0].shape[0].replace(" ", "") in ("2*tokens0", "tokens0*2")


@pytest.mark.parametrize("x", [
    numpy.array([[1.0] * 8], object), numpy.ones((1, 8), ">f4"), numpy.array([["a"] * 8]),
    [[1.0] * 8, [2.0]]])
def test_arrays_that_are_no_numbers_of_this_machine(x):
    with pytest.raises(ValueError, match="input 'x'"):
        tv.onnx.compile(linear()[0], optimization_level=0).run(None, {"x": x})


def test_the_sign_of_nan_is_nan():
    made = model([helper.make_node("Sign", ["x"], ["y"])], [tensor("x", ["n"])],
                 [tensor("y", ["n"])])
    x = numpy.float32([numpy.nan, -2, 0, numpy.inf])
    (y,) = tv.onnx.compile(made, optimization_level=0, fallback="none").run(None, {"x": x})
    numpy.testing.assert_array_equal(y, numpy.float32([numpy.nan, -1, 0, 1]))


def test_refit():
    made, _ = linear()
    other, reference = linear(seed=1)
    session = tv.onnx.compile(made)
    session.refit(other)
    x = random(2, 8)
    numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="another network"):
        session.refit(linear(width=6)[0])
    numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="immutable_weights"):
        tv.onnx.compile(made, immutable_weights=True).refit(other)


def test_engine_cache(tmp_path):
    settings = {"engine_cache_dir": str(tmp_path)}
    tv.onnx.compile(linear()[0], **settings)
    before = tv.cache.stats()["hit"]
    again, reference = linear(seed=2)  # the weights are no part of the key
    session = tv.onnx.compile(again, **settings)
    assert tv.cache.stats()["hit"] == before + 1
    x = random(2, 8)
    numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-5, atol=1e-5)


def test_all_that_cannot_convert_is_listed():
    made = model([helper.make_node("NonMaxSuppression", ["x", "x"], ["a"], name="first"),
                  helper.make_node("Relu", ["a"], ["b"], name="between"),
                  helper.make_node("Nonsense", ["b"], ["c"], name="second"),
                  helper.make_node("Other", ["x"], ["d"], name="third", domain="com.example")],
                 [tensor("x", [4])], [tensor("c", None), tensor("d", None)],
                 domains=["com.example"])
    with pytest.raises(tv.UnsupportedError) as refused:
        tv.onnx.compile(made, fallback="none")
    text = str(refused.value)
    for part in ("3 nodes", '"first"', '"second"', '"third"', "com.example"):
        assert part in text, text
    assert "between" not in text


def test_wider_types_are_truncated_when_asked():
    made = model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [tensor("x", [3], TensorProto.DOUBLE)], [tensor("y", [3], TensorProto.DOUBLE)],
                 [weight("w", numpy.array([0.5, 1.5, 2.5]))])
    with pytest.raises(tv.UnsupportedError, match="float64"):
        tv.onnx.compile(made, fallback="none")
    (y,) = tv.onnx.compile(made, truncate_long_and_double=True).run(None, {"x": numpy.ones(3)})
    assert y.dtype == numpy.float64 and y.tolist() == [1.5, 2.5, 3.5]


def test_lower_precision():
    made, reference = linear()
    session = tv.onnx.compile(made, enabled_precisions={torch.float32, torch.float16})
    x = random(3, 8)
    y, exact = session(x), reference(x)
    assert y.dtype == numpy.float32
    numpy.testing.assert_allclose(y, exact, rtol=1e-2, atol=1e-2)
    assert numpy.abs(y - exact).max() > 0


def test_constants_set_shapes():
    made = model([helper.make_node("Reshape", ["x", "shape"], ["y"])],
                 [tensor("x", [6]), tensor("shape", [2], TensorProto.INT64)],
                 [tensor("y", None)])
    with pytest.raises(tv.UnsupportedError, match="computed from data"):
        tv.onnx.compile(made, fallback="none")
    session = tv.onnx.compile(made, constants={"shape": numpy.array([2, 3])})
    assert session(random(6)).shape == (2, 3)
    assert [arg.name for arg in session.get_inputs()] == ["x"]


def test_functions_are_inlined():
    nodes = [helper.make_node("LeakyRelu", ["a"], ["t"]),
             helper.make_node("Mul", ["t", "t"], ["b"])]
    nodes[0].attribute.add(name="alpha", ref_attr_name="slope", type=1)
    function = helper.make_function("com.example", "Squash", ["a"], ["b"], nodes,
                                    [helper.make_opsetid("", 20)], ["slope"])
    made = model([helper.make_node("Squash", ["x"], ["y"], domain="com.example", slope=0.5)],
                 [tensor("x", [4])], [tensor("y", [4])], functions=[function],
                 domains=["com.example"])
    x = random(4)
    want = numpy.where(x < 0, x * 0.5, x) ** 2
    numpy.testing.assert_allclose(tv.onnx.compile(made)(x), want, rtol=1e-6)


def test_symbols_that_must_be_equal_are_merged():
    made = model([helper.make_node("Add", ["x", "z"], ["y"])],
                 [tensor("x", ["a", 3]), tensor("z", ["b", 3])], [tensor("y", None)])
    session = tv.onnx.compile(made)
    numpy.testing.assert_array_equal(session(random(4, 3), random(4, 3)), 2 * random(4, 3))
    with pytest.raises(ValueError):
        session(random(4, 3), random(5, 3))


def test_arithmetic_on_sizes():
    nodes = [helper.make_node("Shape", ["x"], ["s"]),
             helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
             helper.make_node("Mul", ["n", "two"], ["m"]),
             helper.make_node("Unsqueeze", ["m", "axes"], ["u"]),
             helper.make_node("Concat", ["u", "rest"], ["shape"], axis=0),
             helper.make_node("Reshape", ["x", "shape"], ["y"])]
    ints = {"zero": numpy.array(0), "two": numpy.array(2), "axes": numpy.array([0]),
            "rest": numpy.array([-1])}
    made = model(nodes, [tensor("x", ["n", 4])], [tensor("y", None)],
                 [weight(name, value.astype(numpy.int64)) for name, value in ints.items()])
    session = tv.onnx.compile(made)
    for n in (1, 3):
        x = random(n, 4)
        numpy.testing.assert_array_equal(session(x), x.reshape(2 * n, 2))


def test_control_flow_of_constants():
    def branch(op):
        return helper.make_graph([helper.make_node(op, ["x"], [f"{op}_out"])], op, [],
                                 [tensor(f"{op}_out", [4])])

    made = model([helper.make_node("If", ["yes"], ["y"], then_branch=branch("Neg"),
                                   else_branch=branch("Abs"))],
                 [tensor("x", [4])], [tensor("y", [4])], [weight("yes", numpy.array(True))])
    x = random(4)
    numpy.testing.assert_array_equal(tv.onnx.compile(made)(x), -x)

    body = helper.make_graph(
        [helper.make_node("Add", ["state", "state"], ["next"]),
         helper.make_node("Identity", ["go"], ["still"]),
         helper.make_node("Identity", ["next"], ["row"])], "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL),
         tensor("state", [4])],
        [tensor("still", [], TensorProto.BOOL), tensor("next", [4]), tensor("row", [4])])
    made = model([helper.make_node("Loop", ["trips", "", "x"], ["y", "rows"], body=body)],
                 [tensor("x", [4])], [tensor("y", [4]), tensor("rows", [3, 4])],
                 [weight("trips", numpy.array(3))])
    y, rows = tv.onnx.compile(made)(x)
    numpy.testing.assert_array_equal(y, 8 * x)
    numpy.testing.assert_array_equal(rows, numpy.stack([2 * x, 4 * x, 8 * x]))


def test_control_flow_of_data_is_refused():
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "b", [], [tensor("o", [4])])
    made = model([helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch,
                                   else_branch=branch)],
                 [tensor("x", [4]), tensor("c", [], TensorProto.BOOL)], [tensor("y", [4])])
    with pytest.raises(tv.UnsupportedError, match='"choice".*computed from data'):
        tv.onnx.compile(made, fallback="none")


@pytest.mark.parametrize("op, domain, inputs, reason", [
    ("SequenceConstruct", "", ["x"], "no translation"),
    ("Binarizer", "ai.onnx.ml", ["x"], "ai.onnx.ml"),
    ("StringNormalizer", "", ["text"], "string"),
    ("Momentum", "ai.onnx.preview.training", ["x"], "training"),
    ("RandomNormalLike", "", ["x"], "no translation"),
])
def test_what_engines_do_not_hold_is_refused_by_name(op, domain, inputs, reason):
    made = model([helper.make_node(op, inputs, ["y"], name="this one", domain=domain)],
                 [tensor("x", [4]), tensor("text", [4], TensorProto.STRING)], [tensor("y", None)],
                 domains=[domain] if domain else [])
    with pytest.raises(tv.UnsupportedError, match=reason) as refused:
        tv.onnx.compile(made, fallback="none")
    assert '"this one"' in str(refused.value)


def test_refit_from_a_file(tmp_path):
    """Whose weights lie beside it."""
    made, _ = linear()
    other, reference = linear(seed=1)
    onnx.save(other, tmp_path / "other.onnx", save_as_external_data=True, location="other.data",
              size_threshold=0)
    assert (tmp_path / "other.data").stat().st_size >= 8 * 5 * 4
    session = tv.onnx.compile(made)
    session.refit(tmp_path / "other.onnx")
    x = random(2, 8)
    numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-5, atol=1e-5)


def test_every_operator_is_listed():
    operators = tv.onnx.supported_ops()
    assert operators == sorted(operators) and {"Conv", "Attention", "Resize"} <= {*operators}


def test_old_opsets():
    made = model([helper.make_node("Clip", ["x"], ["c"], min=-0.5, max=0.5),
                  helper.make_node("Slice", ["c"], ["s"], starts=[1], ends=[3], axes=[0]),
                  helper.make_node("Unsqueeze", ["s"], ["u"], axes=[0]),
                  helper.make_node("Softmax", ["u"], ["y"])],
                 [tensor("x", [4])], [tensor("y", None)], opset=7)
    x = random(4)
    want = numpy.exp(numpy.clip(x, -0.5, 0.5)[1:3])[None]
    numpy.testing.assert_allclose(tv.onnx.compile(made)(x), want / want.sum(), rtol=1e-5)
    with pytest.raises(tv.UnsupportedError, match="opset 6"):
        tv.onnx.compile(onnx_models.unary("Relu", opset=6), fallback="none")


def test_the_page_lists_operators_and_refused_cases():
    script = Path(__file__).parents[2] / "scripts" / "onnx_page.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_attention_keeps_nan_and_hides_rows():
    made = model([helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])],
                 [tensor(name, [1, 1, 2, 4]) for name in "qkv"]
                 + [tensor("mask", [2, 2], TensorProto.BOOL)], [tensor("y", None)], opset=23)
    q, k, v = (random(1, 1, 2, 4, seed=i) for i in range(3))
    q[0, 0, 0, 0] = numpy.nan
    mask = numpy.array([[True, True], [False, False]])
    y = tv.onnx.compile(made).run(None, {"q": q, "k": k, "v": v, "mask": mask})[0]
    assert numpy.isnan(y[0, 0, 0]).all() and (y[0, 0, 1] == 0).all()


@pytest.mark.parametrize("axis, step", [(0, 1), (1, 1), (1, 2), (1, -1)])
def test_a_constant_is_cut_to_the_size_of_an_input(axis, step):
    """Also one of integers, which the importer could move itself if the size were a number."""
    table = numpy.arange(40, dtype=numpy.int64).reshape(8, 5) ** 2
    ends = ["rows", "none"] if step < 0 else ["none", "rows"]
    nodes = [helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
             helper.make_node("Slice", ["table", *ends, "axis", "step"], ["part"]),
             helper.make_node("ReduceSum", ["part"], ["sum"], keepdims=0),
             helper.make_node("Cast", ["sum"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["x", "real"], ["y"])]
    none = numpy.array([0], numpy.int64)
    made = model(nodes, [tensor("x", ["n", 3])], [tensor("y", ["n", 3])],
                 [weight("table", table), weight("none", none),
                  weight("axis", numpy.array([axis])), weight("step", numpy.array([step]))])
    session = tv.onnx.compile(made, optimization_level=0, fallback="none", inputs={
        "x": tv.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(4, 3))})
    for rows in (1, 2, 4):
        x = numpy.random.default_rng(rows).random((rows, 3), "float32")
        index = slice(rows, 0, -1) if step < 0 else slice(0, rows, step)
        part = table[:, index] if axis else table[index]
        (got,) = session.run(None, {"x": x})
        numpy.testing.assert_allclose(got, x * numpy.float32(part.sum()), rtol=1e-6)


@pytest.mark.parametrize("axes", [[0, 0], [1, -1]])
def test_an_axis_is_cut_once(axes):
    """The second cut would be one of another size."""
    made = model([helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
                 [tensor("x", [10, 10])], [tensor("y", None)],
                 [weight("starts", numpy.array([0, 5])), weight("ends", numpy.array([3, 10])),
                  weight("axes", numpy.array(axes))])
    with pytest.raises(ValueError, match="axis . twice"):
        tv.onnx.compile(made, optimization_level=0, fallback="none")


def rounded_down(size, by, result):
    """Nodes of a quotient of integers as torch.onnx writes one that rounds down: what Div
    truncates, less whether the signs differ and there is a remainder."""
    names = {name: f"{result}_{name}" for name in (
        "quotient", "sign", "sign_by", "same", "differ", "left", "is_left", "both", "less")}
    return [helper.make_node("Div", [size, by], [names["quotient"]]),
            helper.make_node("Sign", [size], [names["sign"]]),
            helper.make_node("Sign", [by], [names["sign_by"]]),
            helper.make_node("Equal", [names["sign"], names["sign_by"]], [names["same"]]),
            helper.make_node("Not", [names["same"]], [names["differ"]]),
            helper.make_node("Mod", [size, by], [names["left"]]),
            helper.make_node("Cast", [names["left"]], [names["is_left"]], to=TensorProto.BOOL),
            helper.make_node("And", [names["differ"], names["is_left"]], [names["both"]]),
            helper.make_node("Cast", [names["both"]], [names["less"]], to=TensorProto.INT64),
            helper.make_node("Sub", [names["quotient"], names["less"]], [result])]


def test_a_size_is_divided_and_rounded_down():
    """Its sign is known by its range, so the rest of torch.onnx's formula does not matter."""
    nodes = [helper.make_node("Shape", ["x"], ["n"], start=1, end=2),
             helper.make_node("Sub", ["n", "one"], ["last"]), *rounded_down("last", "four", "q"),
             helper.make_node("Add", ["q", "one"], ["end"]),
             helper.make_node("Slice", ["x", "none", "end", "one"], ["y"])]
    made = model(nodes, [tensor("x", [2, "n"])], [tensor("y", [2, None])],
                 [weight(name, numpy.array([value])) for name, value in
                  (("none", 0), ("one", 1), ("four", 4))])
    session = tv.onnx.compile(made, optimization_level=0, fallback="none", inputs={
        "x": tv.Input(min_shape=(2, 2), opt_shape=(2, 9), max_shape=(2, 20))})
    for size in range(2, 21):
        x = numpy.random.default_rng(size).random((2, size), "float32")
        (got,) = session.run(None, {"x": x})
        numpy.testing.assert_array_equal(got, x[:, :(size - 1) // 4 + 1])


@pytest.mark.parametrize("size", [-9, -8, -1, 0, 1, 8, 9])
@pytest.mark.parametrize("by", [4, -4])
def test_known_integers_are_divided_and_rounded_down(size, by):
    nodes = [*rounded_down("size", "by", "q"), helper.make_node("Cast", ["q"], ["real"],
                                                                to=TensorProto.FLOAT),
             helper.make_node("Add", ["x", "real"], ["y"])]
    made = model(nodes, [tensor("x", [3])], [tensor("y", [3])],
                 [weight("size", numpy.array([size])), weight("by", numpy.array([by]))])
    x = numpy.array([0, 1, 2], "float32")
    (got,) = tv.onnx.compile(made, optimization_level=0, fallback="none").run(None, {"x": x})
    numpy.testing.assert_array_equal(got, x + size // by)
