"""What importing a dynamic model takes for granted about sizes is checked when it is called."""

import numpy
import pytest
from onnx import TensorProto, helper

import torch_vulkan as tv
from torch_vulkan._base.errors import UnsupportedError

from onnx_models import model, tensor, weight


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def ints(name, *values):
    return weight(name, numpy.array(values, dtype=numpy.int64))


def one_node(op, shape, weights=(), more=(), outputs=("y",), opset=20, **attributes):
    """A node named "wants" of an input x with these sizes, and of weights; then Relu."""
    names = ["x", *more, *(w.name for w in weights)]
    made = [f"{name}_made" for name in outputs]
    nodes = [helper.make_node(op, names, made, name="wants", **attributes),
             *(helper.make_node("Relu", [m], [o]) for m, o in zip(made, outputs))]
    return model(nodes, [tensor("x", shape), *(tensor(name, s) for name, s in more.items())]
                 if more else [tensor("x", shape)],
                 [tensor(name, None) for name in outputs], weights, opset)


def rows_of_four(name="wants"):
    return model([helper.make_node("Reshape", ["x", "shape"], ["r"], name=name),
                  helper.make_node("Relu", ["r"], ["y"])],
                 [tensor("x", ["batch", 6])], [tensor("y", None)], [ints("shape", -1, 4)])


def relu(x):
    return numpy.maximum(x, 0)


def check(session, expected, *inputs):
    results = session.run(None, dict(zip([a.name for a in session.get_inputs()], inputs)))
    for result, want in zip(results, expected, strict=True):
        assert result.shape == want.shape
        numpy.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)


def test_rows_that_a_reshape_does_not_divide():
    session = tv.onnx.compile(rows_of_four())
    for batch in (2, 4, 14):
        x = random(batch, 6)
        check(session, [relu(x).reshape(-1, 4)], x)
    with pytest.raises(ValueError, match=r'input "x" dimension 0: got 3; \[Reshape "wants"\] wants '
                                         r"6\*batch to be a multiple of 4, got 18"):
        session(random(3, 6))


def test_files_keep_conditions(tmp_path):
    tv.onnx.compile(rows_of_four()).engine.save(tmp_path / "net.vke")
    engine = tv.Engine.load(tmp_path / "net.vke")
    x = random(4, 6)
    numpy.testing.assert_array_equal(engine.run({"x": x})["y"], relu(x).reshape(-1, 4))
    with pytest.raises(ValueError, match="multiple of 4, got 30"):
        engine.run({"x": random(5, 6)})


def test_cached_engines_name_the_nodes_of_the_file_at_hand(tmp_path):
    tv.onnx.compile(rows_of_four(), engine_cache_dir=str(tmp_path))
    before = tv.cache.stats()["hit"]
    session = tv.onnx.compile(rows_of_four("other"), engine_cache_dir=str(tmp_path))
    assert tv.cache.stats()["hit"] == before + 1
    with pytest.raises(ValueError, match=r'\[Reshape "other"\] wants'):
        session(random(3, 6))


def test_usual_sizes_are_ones_that_the_model_takes():
    session = tv.onnx.compile(rows_of_four())
    assert session.engine.info()["profiles"][0][0]["opt"] == 2

    def ranges(opt):
        return {"x": tv.Input(min_shape=(1, 6), opt_shape=(opt, 6), max_shape=(9, 6))}

    assert tv.onnx.compile(rows_of_four(), inputs=ranges(6)).engine.info()[
        "profiles"][0][0]["opt"] == 6
    with pytest.raises(ValueError, match="multiple of 4, got 30; give an opt_shape"):
        tv.onnx.compile(rows_of_four(), inputs=ranges(5))
    with pytest.raises(ValueError, match="do not divide|never holds"):
        tv.onnx.compile(rows_of_four(), inputs={"x": (3, 6)})


@pytest.mark.parametrize(("made", "good", "bad", "message"), [
    (one_node("Split", ["n", 2], [ints("sizes", 3, 4)], outputs=("y", "z"), axis=0),
     (7, 2), (8, 2), "n to be 7, got 8"),
    (one_node("Split", ["n", 2], outputs=("y", "z"), axis=0, opset=13),
     (6, 2), (7, 2), "n to be a multiple of 2, got 7"),
    (one_node("Split", ["n", 2], outputs=("y", "z", "w", "v"), axis=0, num_outputs=4),
     (7, 2), (5, 2), "to be at least 0, got -1"),
    (one_node("SpaceToDepth", [1, 1, "h", "w"], blocksize=2),
     (1, 1, 4, 6), (1, 1, 4, 5), "w to be a multiple of 2, got 5"),
    (one_node("DepthToSpace", [1, "c", 2, 3], blocksize=2),
     (1, 8, 2, 3), (1, 6, 2, 3), "c to be a multiple of 4, got 6"),
    (one_node("Conv", [1, 1, "h", 8], [weight("k", random(1, 1, 7, 3))]),
     (1, 1, 9, 8), (1, 1, 6, 8), "h to be at least 7, got 6"),
    (one_node("MaxPool", [1, 1, "h", 8], kernel_shape=[5, 3]),
     (1, 1, 5, 8), (1, 1, 4, 8), "h to be at least 5, got 4"),
    (one_node("TopK", [2, "n"], [ints("k", 3)], outputs=("y",)),
     (2, 5), (2, 2), "n to be at least 3, got 2"),
    (one_node("Gather", ["n", 2], [ints("i", 4)]),
     (5, 2), (4, 2), "n to be at least 5, got 4"),
    (one_node("Gather", ["n", 2], [ints("i", 0, -5)]),
     (5, 2), (4, 2), r"n \+ -5 to be at least 0, got -1"),
    (one_node("GatherND", ["n", "m", 2], [ints("i", [0, 5], [1, -3])]),
     (2, 6, 2), (2, 5, 2), "m to be at least 6, got 5"),
    (one_node("GatherND", ["n", "m"], [ints("i", [2, 0], [-3, 1])]),
     (3, 2), (2, 2), r"n \+ -3 to be at least 0, got -1"),
    (one_node("ScatterND", ["n", "m"], [ints("i", [0, 4], [1, 0]), weight("u", random(2))]),
     (2, 5), (2, 4), "m to be at least 5, got 4"),
    (one_node("Squeeze", [1, "n", 2]), (1, 3, 2), (1, 1, 2), "n not to be 1, got 1"),
    (one_node("Compress", ["n", 2], [weight("c", numpy.array([False, True, True]))], axis=0),
     (3, 2), (2, 2), "n to be at least 3, got 2"),
], ids=lambda value: value.graph.node[0].op_type if hasattr(value, "graph") else "")
def test_what_nodes_take_for_granted(made, good, bad, message):
    from onnx.reference import ReferenceEvaluator

    session = tv.onnx.compile(made, fallback="none")
    x = random(*good)
    check(session, ReferenceEvaluator(made).run(None, {"x": x}), x)
    with pytest.raises(ValueError, match=rf'input "x" dimension .*"wants"\] wants .*({message})'):
        session(random(*bad))


def test_channels_of_unknown_number_are_refused():
    made = one_node("BatchNormalization", [2, "c", 3],
                    [weight(k, random(4, seed=i) ** 2) for i, k in enumerate("sbmv")])
    with pytest.raises(tv.UnsupportedError, match='"wants"\\] sizes 4 and s0 must be equal'):
        tv.onnx.compile(made, fallback="none")


@pytest.mark.parametrize(("op", "shapes", "bad"), [
    ("MatMul", {"x": ["n", "k"], "w": ["m", "p"]}, {"x": (2, 3), "w": (4, 5)}),
    ("Add", {"x": ["a", 3], "w": ["b", 3]}, {"x": (2, 3), "w": (4, 3)}),
    ("Concat", {"x": ["a", 3], "w": ["b", 5]}, {"x": (2, 3), "w": (4, 5)}),
])
def test_sizes_of_two_names_that_must_be_equal(op, shapes, bad):
    more = {"axis": 1} if op == "Concat" else {}
    made = model([helper.make_node(op, ["x", "w"], ["y"], **more)],
                 [tensor(name, shape) for name, shape in shapes.items()], [tensor("y", None)])
    session = tv.onnx.compile(made)
    good = {"MatMul": [(2, 3), (3, 5)], "Add": [(4, 3), (4, 3)], "Concat": [(4, 3), (4, 5)]}[op]
    x, w = random(*good[0]), random(*good[1], seed=1)
    want = {"MatMul": numpy.matmul, "Add": numpy.add,
            "Concat": lambda a, b: numpy.concatenate([a, b], axis=1)}[op](x, w)
    check(session, [want], x, w)
    with pytest.raises(ValueError, match='input "w" dimension 0: got 4, want [23], as other'):
        session.run(None, {name: random(*shape) for name, shape in bad.items()})


def test_two_conditions_of_one_reshape():
    """Both sides may depend on sizes: rows of x as rows as long as those of w."""
    made = model([helper.make_node("Shape", ["w"], ["s"], start=1),
                  helper.make_node("Concat", ["minus", "s"], ["shape"], axis=0),
                  helper.make_node("Reshape", ["x", "shape"], ["r"], name="wants"),
                  helper.make_node("Add", ["r", "w"], ["y"])],
                 [tensor("x", ["n", 6]), tensor("w", [1, "k"])], [tensor("y", None)],
                 [ints("minus", -1)])
    session = tv.onnx.compile(made)
    for n, k in ((2, 4), (3, 9), (1, 6)):
        x, w = random(n, 6), random(1, k, seed=1)
        check(session, [x.reshape(-1, k) + w], x, w)
    with pytest.raises(ValueError, match=r'"x" dimension 0: got 3; input "w" dimension 1: got 4; '
                                         r".* wants 6\*n to be a multiple of k, got 18 and 4"):
        session.run(None, {"x": random(3, 6), "w": random(1, 4)})


def test_gathers_of_dynamic_indices():
    made = model([helper.make_node("GatherElements", ["x", "i"], ["g"], name="wants", axis=1),
                  helper.make_node("Relu", ["g"], ["y"])],
                 [tensor("x", ["n", 4]), tensor("i", ["m", 2], TensorProto.INT64)],
                 [tensor("y", None)])
    session = tv.onnx.compile(made)
    x, i = random(3, 4), numpy.array([[0, 3], [1, 2]])
    check(session, [relu(numpy.take_along_axis(x[:2], i, 1))], x, i)
    with pytest.raises(ValueError, match=r'"wants"\] wants n to be at least m, got 1 and 2'):
        session.run(None, {"x": random(1, 4), "i": i})


def test_sizes_as_numbers_beyond_2_31():
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Mul", ["n", "n"], ["nn"]),
             helper.make_node("Cast", ["nn"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["x", "f"], ["y"]),
             helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
             helper.make_node("Mul", ["nn", "n"], ["nnn"]),
             helper.make_node("Add", ["i", "nnn"], ["z"])]
    session = tv.onnx.compile(model(nodes, [tensor("x", ["n"])], [
        tensor("y", None), helper.make_tensor_value_info("z", TensorProto.INT64, None)]),
        fallback="none")
    for n in (7, 50_000, 65_536):
        x = random(n)
        y, z = session.run(None, {"x": x})
        numpy.testing.assert_array_equal(y, x * numpy.float32(n * n))
        numpy.testing.assert_array_equal(z, x.astype(numpy.int64) + n ** 3)
    with pytest.raises(UnsupportedError, match="passes 2\\^63"):
        session.run(None, {"x": random(2_200_000)})
