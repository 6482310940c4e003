"""Integers of a file whose type engines do not hold - uint16, uint32 and those below 8 bits - are
read into a wider one where that cannot show, and their nodes are left out elsewhere. Those of
uint64 are in int64, bit for bit."""

import json
import subprocess
from pathlib import Path

import numpy
import onnx
import provider_tests
import pytest
import torch
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
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    same(session.run(None, feed), wanted(made, feed))


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
    feed = {"x": numpy.zeros(4, "float32")}
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    same(session.run(None, feed), wanted(made, feed))


EDGES = [0, 1, 2, 3, 77]


def arithmetic(op, dtype):
    """A model of two inputs of a type, and what it is given: what wraps, too."""
    most = int(numpy.iinfo(dtype).max)
    edges = numpy.array([*EDGES, most, most - 1, most // 2, most // 2 + 1], dtype)
    a, b = (part.reshape(-1) for part in numpy.meshgrid(edges, edges))
    kind = "BitShift" if op in ("LEFT", "RIGHT") else op
    if kind == "BitShift":
        b = b % numpy.array(8 * numpy.dtype(dtype).itemsize, dtype)
    if kind in ("Div", "Mod"):
        b = numpy.maximum(b, numpy.array(1, dtype))
    attributes = {"direction": op} if kind == "BitShift" else {}
    result = TensorProto.BOOL if kind in ("Equal", "Greater", "Less") else KINDS[dtype]
    made = model([helper.make_node(kind, ["a", "b"], ["y"], **attributes)],
                 [tensor(n, ["n"], KINDS[dtype]) for n in "ab"], [tensor("y", ["n"], result)])
    return made, {"a": a, "b": b}


def computed_here(op, feed):
    """Of integers of any width, as ONNX Runtime does not have all of these."""
    a, b = feed["a"], feed["b"]
    with numpy.errstate(over="ignore"):
        return {"Add": a + b, "Sub": a - b, "Mul": a * b, "Div": a // b if op == "Div" else a,
                "Mod": a % b if op == "Mod" else a, "Max": numpy.maximum(a, b),
                "Min": numpy.minimum(a, b), "Equal": a == b, "Greater": a > b, "Less": a < b,
                "LEFT": a << b if op == "LEFT" else a, "RIGHT": a >> b if op == "RIGHT" else a,
                "BitwiseXor": a ^ b}[op]


OPERATORS = ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Greater", "Less", "LEFT",
             "RIGHT", "BitwiseXor"]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("op", OPERATORS)
def test_inputs_and_results_of_engines(op, dtype):
    made, feed = arithmetic(op, dtype)
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    assert session.get_inputs()[0].type == f"tensor({dtype})"
    want = computed_here(op, feed)
    (got,) = session.run(None, feed)
    assert got.dtype == want.dtype and got.dtype in (bool, numpy.dtype(dtype))
    numpy.testing.assert_array_equal(got, want)
    (got,) = session.run(None, {name: torch.from_numpy(array) for name, array in feed.items()})
    assert isinstance(got, torch.Tensor)
    numpy.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(ValueError, match="input 'a'"):
        session.run(None, {**feed, "a": feed["a"].astype("int32")})


@pytest.mark.parametrize("dtype", KINDS)
def test_values_between_engines_and_the_runtime(dtype):
    """Unique is the runtime's, and what is around it an engine's."""
    made = model([helper.make_node("Add", ["x", "x"], ["a"]),
                  helper.make_node("Unique", ["a"], ["u"]),
                  helper.make_node("Max", ["u", "k"], ["m"]),
                  helper.make_node("Cast", ["m"], ["y"], to=TensorProto.INT64)],
                 [tensor("x", ["n"], KINDS[dtype])],
                 [tensor("u", ["m"], KINDS[dtype]), tensor("y", ["m"], INT)],
                 [weight("k", numpy.array(5, dtype))])
    most = int(numpy.iinfo(dtype).max)
    x = numpy.array([1, most, 1, 7, most // 2 + 1], dtype)
    session = tv.onnx.compile(made, optimization_level=0, min_block_size=1)
    assert len(session.engines) == 2 and [op for _, op, _ in session.native] == ["Unique"]
    unique = numpy.unique(x + x)
    same(session.run(None, {"x": x}), [unique, numpy.maximum(unique, 5).astype("int64")])


def test_a_narrower_store_leaves_them_out():
    """int64, which holds uint32 and uint64, would be int32."""
    for dtype in ("uint32", "uint64"):
        made, _ = arithmetic("Add", dtype)
        with pytest.raises(tv.UnsupportedError, match=f"type {dtype}"):
            tv.onnx.compile(made, fallback="none", truncate_long_and_double=True)


def compiled(made, feed):
    return tv.onnx.compile(made, optimization_level=0, fallback="none").run(None, feed)


def numbers_of(dtype):
    """Ends of the range, the middle, and what floats round to either side, or halfway."""
    most = int(numpy.iinfo(dtype).max)
    powers = [1 << bit for bit in range(0, 64, 3) if 1 << bit <= most]
    near = {abs(power + by) for power in powers for by in (-2, -1, 0, 1)}
    halfway = {(1 << 63) + (1 << 39), (1 << 63) + (1 << 39) + 1, (1 << 63) + (3 << 39)}
    return numpy.array(sorted(n for n in near | halfway | {most, most // 2 + 1} if n <= most),
                       dtype)


FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("to", FLOATS)
def test_casts_to_floats(to, dtype):
    x = numbers_of(dtype)
    made = model([helper.make_node("Cast", ["x"], ["y"], to=FLOATS[to])],
                 [tensor("x", ["n"], KINDS[dtype])], [tensor("y", ["n"], FLOATS[to])])
    with numpy.errstate(over="ignore"):
        numpy.testing.assert_array_equal(compiled(made, {"x": x})[0], x.astype(to))


@pytest.mark.parametrize("dtype", KINDS)
def test_casts_of_floats(dtype):
    """Of numbers that the type has."""
    x = numbers_of(dtype).astype("float32")
    x = numpy.concatenate([x[x < float(numpy.iinfo(dtype).max)], numpy.float32([0.75, 2.5])])
    made = model([helper.make_node("Cast", ["x"], ["y"], to=KINDS[dtype])],
                 [tensor("x", ["n"])], [tensor("y", ["n"], KINDS[dtype])])
    (got,) = compiled(made, {"x": x})
    assert got.dtype == numpy.dtype(dtype)
    numpy.testing.assert_array_equal(got, x.astype(dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("to", [*KINDS, "int64", "int8", "bool"])
def test_casts_between_integers(to, dtype):
    """The low bits are left."""
    x = numbers_of(dtype)
    kind = KINDS.get(to) or {"int64": INT, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}[to]
    made = model([helper.make_node("Cast", ["x"], ["y"], to=kind)],
                 [tensor("x", ["n"], KINDS[dtype])], [tensor("y", ["n"], kind)])
    (got,) = compiled(made, {"x": x})
    assert got.dtype == numpy.dtype(to)
    numpy.testing.assert_array_equal(got, x.astype(to))
    made = model([helper.make_node("Cast", ["x"], ["y"], to=KINDS[dtype])],
                 [tensor("x", ["n"], kind)], [tensor("y", ["n"], KINDS[dtype])])
    given = x.astype(to)
    numpy.testing.assert_array_equal(compiled(made, {"x": given})[0], given.astype(dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("largest", [0, 1])
def test_the_largest_and_the_smallest(largest, dtype):
    x = numpy.random.default_rng(0).permutation(numbers_of(dtype))
    made = model([helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=largest)],
                 [tensor("x", ["n"], KINDS[dtype])],
                 [tensor("y", [5], KINDS[dtype]), tensor("i", [5], INT)],
                 [weight("k", numpy.array([5]))])
    got, places = compiled(made, {"x": x})
    want = numpy.sort(x)[::-1 if largest else 1][:5]
    assert got.dtype == x.dtype and places.dtype == numpy.int64
    numpy.testing.assert_array_equal(got, want)
    numpy.testing.assert_array_equal(x[places], want)


@pytest.mark.parametrize("dtype", KINDS)
def test_what_moves_data(dtype):
    x = numbers_of(dtype)[-6:].reshape(2, 3)
    kind = KINDS[dtype]
    shape = weight("three", numpy.array([2, 2, 3]))
    made = model(
        [helper.make_node("Concat", ["x", "w"], ["joined"], axis=0),
         helper.make_node("Expand", ["x", "three"], ["expanded"]),
         helper.make_node("Tile", ["x", "twice"], ["tiled"]),
         helper.make_node("Split", ["x", "parts"], ["left", "right"], axis=1),
         helper.make_node("GatherElements", ["x", "places"], ["elements"], axis=1),
         helper.make_node("GatherND", ["x", "pairs"], ["picked"]),
         helper.make_node("Where", ["c", "x", "w"], ["chosen"])],
        [tensor("x", [2, 3], kind), tensor("c", [2, 3], TensorProto.BOOL)],
        [tensor(name, None, kind) for name in ("joined", "expanded", "tiled", "left", "right",
                                               "elements", "picked", "chosen")],
        [shape, weight("w", x[:, ::-1]), weight("twice", numpy.array([1, 2])),
         weight("parts", numpy.array([1, 2])), weight("places", numpy.array([[2, -3], [1, 1]])),
         weight("pairs", numpy.array([[1, 2], [0, -1]]))], opset=18)
    c = numpy.array([[True, False, True], [False, True, False]])
    want = [numpy.concatenate([x, x[:, ::-1]]), numpy.broadcast_to(x, (2, 2, 3)),
            numpy.tile(x, (1, 2)), x[:, :1], x[:, 1:],
            numpy.array([[x[0, 2], x[0, 0]], [x[1, 1], x[1, 1]]], dtype),
            numpy.array([x[1, 2], x[0, 2]], dtype), numpy.where(c, x, x[:, ::-1])]
    same(compiled(made, {"x": x, "c": c}), want)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("size", [2, 1 << 17])
def test_a_tensor_of_one_number(size, dtype):
    """Its type is the file's, whether it is known or made by the engine."""
    most = numpy.iinfo(dtype).max
    made = model([helper.make_node("ConstantOfShape", ["s"], ["y"], value=helper.make_tensor(
                      "v", KINDS[dtype], [1], [int(most)])),
                  helper.make_node("Exp", ["x"], ["z"])],
                 [tensor("x", [3])], [tensor("y", [size], KINDS[dtype]), tensor("z", [3])],
                 [weight("s", numpy.array([size]))])
    x = numpy.zeros(3, "float32")
    same(compiled(made, {"x": x}), [numpy.full(size, most, dtype), numpy.exp(x)])


def test_a_power_of_an_unsigned_number():
    x = numpy.array([2, 1, 0.5, -1, 0, 2], "float32")
    exponent = numpy.array([3, 1 << 63, 2, 3, 0, 100], "uint64")
    made = model([helper.make_node("Pow", ["x", "e"], ["y"])],
                 [tensor("x", [6]), tensor("e", [6], KINDS["uint64"])], [tensor("y", [6])])
    (got,) = compiled(made, {"x": x, "e": exponent})
    numpy.testing.assert_allclose(got, [8, 1, 0.25, -1, 1, 2.0 ** 100], rtol=1e-6)
    whole = model([helper.make_node("Pow", ["x", "e"], ["y"])],
                  [tensor("x", [6], INT), tensor("e", [6], KINDS["uint64"])],
                  [tensor("y", [6], INT)])
    with pytest.raises(tv.UnsupportedError, match="an exponent of type uint64 of integers"):
        tv.onnx.compile(whole, fallback="none")


@pytest.mark.parametrize("dtype", KINDS)
def test_bits(dtype):
    """As signed integers and floats of the same width, and back."""
    x = numbers_of(dtype)
    of = {"uint16": ("float16", TensorProto.FLOAT16), "uint32": ("float32", TensorProto.FLOAT),
          "uint64": ("int64", INT)}[dtype]
    made = model([helper.make_node("BitCast", ["x"], ["s"], to=of[1]),
                  helper.make_node("BitCast", ["s"], ["y"], to=KINDS[dtype])],
                 [tensor("x", ["n"], KINDS[dtype])],
                 [tensor("s", ["n"], of[1]), tensor("y", ["n"], KINDS[dtype])], opset=26)
    if dtype == "uint32":  # kernels may flush small numbers and quieten what is no number
        x = x[(x & 0x7f800000 != 0) & (x & 0x7f800000 != 0x7f800000)]
    if dtype == "uint16":
        x = x[(x & 0x7c00 != 0) & (x & 0x7c00 != 0x7c00)]
    assert x.size > 3
    signed, back = compiled(made, {"x": x})
    numpy.testing.assert_array_equal(signed, x.view(of[0]))
    numpy.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("dtype", KINDS)
def test_vkexec_takes_them(dtype, tmp_path):
    """Files of such a type are read; results are written as what the engine holds them in."""
    made, feed = arithmetic("Sub", dtype)
    onnx.save(made, tmp_path / "net.onnx")
    for name, array in feed.items():
        numpy.save(tmp_path / f"{name}.npy", array)
    done = subprocess.run(
        [Path(tv.__file__).parent / "bin" / "vkexec", f"--onnx={tmp_path}/net.onnx",
         f"--loadInputs=a:{tmp_path}/a.npy,b:{tmp_path}/b.npy", "--iterations=1", "--duration=0",
         "--warmUp=0", "--builderOptimizationLevel=0", f"--exportOutput={tmp_path}/y.json"],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = json.loads((tmp_path / "y.json").read_text())
    assert output["values"] == (feed["a"] - feed["b"]).astype("int64").tolist()


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
