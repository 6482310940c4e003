"""Values of types that engines hold in wider ones, in ONNX Runtime's provider: 2- and 4-bit
integers, small floating-point numbers, uint16 and uint32."""

import ml_dtypes
import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from provider_tests import CPU, NAME, nodes_of, results_of, session

from marks import turns
from onnx_models import model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")

ALL = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2,
       "UINT2": ml_dtypes.uint2, "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
       "FLOAT8E5M2": ml_dtypes.float8_e5m2, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
       "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "UINT16": numpy.uint16,
       "UINT32": numpy.uint32}
PACKED = ("INT4", "UINT4", "INT2", "UINT2")


def type_of(name):
    return getattr(TensorProto, name)


def codes(name, *shape):
    """Elements of all bit patterns."""
    size = numpy.dtype(ALL[name]).itemsize
    bits = numpy.random.default_rng(0).integers(0, 256, (*shape, size), numpy.uint8)
    if name in PACKED:  # an element a byte, in NumPy
        low, high = (int(f(ml_dtypes.iinfo(ALL[name]))) for f in (
            lambda i: i.min, lambda i: i.max))
        return numpy.random.default_rng(0).integers(low, high + 1, shape).astype(ALL[name])
    return bits.view(ALL[name]).reshape(shape)


def compare(made, feed):
    """With the results of onnx's reference evaluator, all of it by the provider."""
    opened = session(made, {"session.disable_cpu_ep_fallback": "1"}, alone=True)
    for got, want in zip(results_of(opened, feed), ReferenceEvaluator(made).run(None, feed),
                         strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        numpy.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))
    return opened


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5)])
@pytest.mark.parametrize("name", ALL)
def test_casts_from(name, shape):
    """Also of as many elements as fill no byte."""
    made = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
                 [tensor("x", shape, type_of(name))], [tensor("y", shape)], opset=25)
    compare(made, {"x": codes(name, *shape)})


@pytest.mark.parametrize("shape", [(), (7,), (3, 5)])
@pytest.mark.parametrize("name", ALL)
def test_casts_to(name, shape):
    made = model([helper.make_node("Cast", ["x"], ["q"], to=type_of(name)),
                  helper.make_node("Reshape", ["q", "flat"], ["y"])],
                 [tensor("x", shape)],
                 [tensor("q", shape, type_of(name)), tensor("y", None, type_of(name))],
                 [weight("flat", numpy.array([-1]))], opset=25)
    unsigned = name.startswith("UINT")
    bits = {"INT4": 3, "UINT4": 4, "INT2": 1, "UINT2": 2}.get(name, 7)
    x = numpy.random.default_rng(1).uniform(0 if unsigned else -2 ** bits, 2 ** bits, shape)
    compare(made, {"x": numpy.array(x, "float32")})


@turns(2)
@pytest.mark.parametrize("name", [name for name in ALL if name != "UINT32"])
def test_quantised_pairs_across_the_border(name):
    """QuantizeLinear's result is the model's, and DequantizeLinear reads an input."""
    small = name.startswith("FLOAT")
    zero = helper.make_tensor("z", type_of(name), [], [0.0 if small else 1])
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"])]
    made = model(nodes, [tensor("x", ["n", 3]), tensor("p", ["n", 3], type_of(name))],
                 [tensor("q", ["n", 3], type_of(name)), tensor("y", ["n", 3])],
                 [weight("s", numpy.array(0.5, "float32")), zero], opset=25)
    x = numpy.random.default_rng(2).uniform(-20, 20, (5, 3)).astype("float32")
    p = codes(name, 5, 3)
    compare(made, {"x": x, "p": p})


def test_data_that_only_moves():
    made = model([helper.make_node("Transpose", ["x"], ["y"]),
                  helper.make_node("Cast", ["x"], ["z"], to=TensorProto.INT8),
                  helper.make_node("Identity", ["x"], ["same"])],
                 [tensor("x", ["n", 5], TensorProto.INT4)],
                 [tensor("y", [5, "n"], TensorProto.INT4), tensor("z", ["n", 5], TensorProto.INT8),
                  tensor("same", ["n", 5], TensorProto.INT4)], opset=25)
    compare(made, {"x": codes("INT4", 3, 5)})
    compare(made, {"x": codes("INT4", 1, 5)})


UNSIGNED = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Equal", "Greater", "GreaterOrEqual",
            "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]


@pytest.mark.parametrize("name", ["UINT16", "UINT32"])
@pytest.mark.parametrize("op", [*UNSIGNED, "BitwiseNot", "LEFT", "RIGHT"])
def test_unsigned_arithmetic(op, name):
    """Results beyond the range lose the high bits."""
    dtype = ALL[name]
    most = int(numpy.iinfo(dtype).max)
    edges = numpy.array([1, 2, 3, most, most - 1, most // 2, most // 2 + 1, 77], dtype)
    a, b = (part.reshape(-1) for part in numpy.meshgrid(edges, edges))
    kind = "BitShift" if op in ("LEFT", "RIGHT") else op
    attributes = {"direction": op} if kind == "BitShift" else {}
    b = b % (16 if name == "UINT16" else 32) if kind == "BitShift" else b
    names = ["a"] if op == "BitwiseNot" else ["a", "b"]
    result = (TensorProto.BOOL if kind in ("Equal", "Greater", "GreaterOrEqual", "Less",
                                           "LessOrEqual") else type_of(name))
    made = model([helper.make_node(kind, names, ["y"], **attributes)],
                 [tensor(n, [64], type_of(name)) for n in names], [tensor("y", [64], result)],
                 opset=20)
    compare(made, {"a": a, "b": b.astype(dtype)} if len(names) == 2 else {"a": a})


def test_between_engines_and_the_cpu_provider():
    """What others compute of such a type comes in, and what engines compute goes out."""
    nodes = [helper.make_node("Add", ["x", "x"], ["a"]),
             helper.make_node("Max", ["a", "two"], ["u"]),
             helper.make_node("Mul", ["u", "two"], ["m"]),
             helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT)]
    made = model(nodes, [tensor("x", [6], TensorProto.UINT32)], [tensor("y", [6])],
                 [numpy_helper.from_array(numpy.array([2], numpy.uint32), "two")], opset=20)
    x = numpy.array([0, 1, 3, 2 ** 31 + 5, 5, 2 ** 32 - 1], numpy.uint32)
    opened = session(made, op_types_to_exclude="Max")
    (got,) = opened.run(None, {"x": x})
    want = numpy.maximum(x + x, 2).astype(numpy.uint32) * numpy.uint32(2)
    numpy.testing.assert_array_equal(got, want.astype("float32"))
    assert nodes_of(opened)[CPU] == [["Max"]] and len(nodes_of(opened)[NAME]) == 2


def test_in_a_context_model(tmp_path):
    made = model([helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT),
                  helper.make_node("Mul", ["h", "h"], ["m"]),
                  helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT8E5M2)],
                 [tensor("x", ["n", 3], TensorProto.UINT16)],
                 [tensor("y", ["n", 3], TensorProto.FLOAT8E5M2)], opset=21)
    onnx.save(made, tmp_path / "net.onnx")
    provider_tests.register()
    options = onnxruntime.SessionOptions()
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME)
    options.add_provider_for_devices([device], {"min_subgraph_size": "1"})
    onnxruntime.ModelCompiler(options, str(tmp_path / "net.onnx"),
                              embed_compiled_data_into_model=True).compile_to_file(
        str(tmp_path / "net_ctx.onnx"))
    (tmp_path / "net.onnx").unlink()
    x = codes("UINT16", 3, 3)
    (got,) = results_of(session(tmp_path / "net_ctx.onnx"), {"x": x})
    (want,) = ReferenceEvaluator(made).run(None, {"x": x})
    numpy.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


def test_what_no_engine_takes():
    made = model([helper.make_node("Equal", ["x", "x"], ["y"])],
                 [tensor("x", [3], TensorProto.STRING)], [tensor("y", [3], TensorProto.BOOL)],
                 opset=20)
    opened = session(made)
    assert [*nodes_of(opened)] == [CPU]
