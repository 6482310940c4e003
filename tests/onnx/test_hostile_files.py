"""Files that are wrong: each is refused with an error that says what and where."""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

import torch_vulkan as tv

import onnx_models
from onnx_models import linear, model, tensor, unary, weight


def external(path, location, offset=None, length=None, shape=(8, 5)):
    """linear() with its weight in another file."""
    made, reference = linear(("batch", 8))
    target = made.graph.initializer[0]
    data = target.raw_data
    target.ClearField("raw_data")
    target.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            target.external_data.add(key=key, value=str(value))
    path.write_bytes(made.SerializeToString())
    return data, reference


def test_external_data(tmp_path):
    (tmp_path / "data").mkdir()
    data, reference = external(tmp_path / "net.onnx", "data/weights.bin", 64, 160)
    (tmp_path / "data" / "weights.bin").write_bytes(bytes(64) + data)
    x = numpy.ones((2, 8), numpy.float32)
    got = tv.onnx.compile(tmp_path / "net.onnx")(x)
    numpy.testing.assert_allclose(got, reference(x), rtol=1e-5, atol=1e-5)


def test_indices_are_whole_numbers():
    """The checker takes them for what they are, the importer made weights of the wrong length."""
    made = model([helper.make_node("ScatterND", ["x", "places", "updates"], ["y"])],
                 [tensor("x", (4, 4, 4)), tensor("places", (2, 1), TensorProto.DOUBLE),
                  tensor("updates", (2, 4, 4))], [tensor("y", (4, 4, 4))])
    with pytest.raises((ValueError, tv.UnsupportedError), match="want whole numbers"):
        tv.onnx.compile(made.SerializeToString(), fallback="none")


def test_a_product_of_a_scalar():
    made = model([helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
                 [tensor("a", (), TensorProto.UINT8), tensor("b", (3, 2), TensorProto.UINT8)],
                 [tensor("y", (2,), TensorProto.INT32)])
    with pytest.raises(ValueError, match="got a scalar"):
        tv.onnx.compile(made.SerializeToString(), fallback="none")


@pytest.mark.parametrize("location, offset, length, message", [
    ("../outside.bin", None, None, "outside of the model's directory"),
    ("a/../../outside.bin", None, None, "outside of the model's directory"),
    ("{absolute}", None, None, "absolute path"),
    ("link.bin", None, None, "symbolic link"),
    ("folder/outside.bin", None, None, "symbolic link"),
    ("hard.bin", None, None, "hard links"),
    ("missing.bin", None, None, "No such file"),
    ("pipe", None, None, "not a regular file"),
    ("", None, None, "without a location"),
    ("own.bin", 100, 160, "want offset 100, length 160"),
    ("own.bin", 2**62, 160, "want offset"),
    ("own.bin", -1, 160, "no offset"),
    ("own.bin", "1e3", 160, "no offset"),
    ("own.bin", 0, 2**63, "no offset or length"),
    ("own.bin", 0, 80, "80 bytes of data, want 160"),
])
def test_external_data_that_is_elsewhere(tmp_path, location, offset, length, message):
    inside = tmp_path / "model"
    inside.mkdir()
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(160))
    (inside / "link.bin").symlink_to(outside)
    (inside / "folder").symlink_to(tmp_path)
    os.link(outside, inside / "hard.bin")
    os.mkfifo(inside / "pipe")
    (inside / "own.bin").write_bytes(bytes(160))
    external(inside / "net.onnx", location.format(absolute=outside), offset, length)
    with pytest.raises(ValueError, match=message) as refused:
        tv.onnx.compile(inside / "net.onnx")
    assert '"w"' in str(refused.value)


def test_external_data_of_bytes(tmp_path):
    external(tmp_path / "net.onnx", "own.bin")
    with pytest.raises(ValueError, match="not a file"):
        tv.onnx.compile((tmp_path / "net.onnx").read_bytes())


def renamed(made, old, new):
    """The file with other bytes of the same length in it."""
    data = made.SerializeToString()
    assert data.count(old) and len(old) == len(new)
    return data.replace(old, new)


def field(number, data):
    """A field of bytes, as protobuf writes it."""
    size, length = len(data), b""
    while size >= 128:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    tag = bytes([number << 3 | 2]) if number < 16 else bytes([number << 3 & 127 | 130, number >> 4])
    return tag + length + bytes([size]) + data


def nested(depth):
    """An If in an If in an If …, deeper than the onnx package writes them."""
    node = helper.make_node("Neg", ["x"], ["y"]).SerializeToString()
    for _ in range(depth):
        graph = field(1, node) + field(12, field(1, b"y"))
        attribute = field(1, b"then_branch") + bytes([0xA0, 0x01, 5]) + field(6, graph)
        node = field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute)
    made = model([], [tensor("x", [4])], [tensor("y", [4])], [weight("c", numpy.array(True))])
    return made.SerializeToString() + field(7, field(1, node))


def recursive():
    function = helper.make_function("f", "F", ["a"], ["b"],
                                    [helper.make_node("F", ["a"], ["b"], domain="f")],
                                    [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)])
    return model([helper.make_node("F", ["x"], ["y"], domain="f")], [tensor("x", [4])],
                 [tensor("y", [4])], functions=[function], domains=["f"])


def doubling():
    """Functions that call the one before twice: 2^40 nodes."""
    functions = [helper.make_function("f", "F0", ["a"], ["b"],
                                      [helper.make_node("Neg", ["a"], ["b"])],
                                      [helper.make_opsetid("", 20)])]
    for i in range(1, 31):
        nodes = [helper.make_node(f"F{i - 1}", [a], [b], domain="f")
                 for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function(
            "f", f"F{i}", ["a"], ["b"], nodes,
            [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]))
    return model([helper.make_node("F30", ["x"], ["y"], domain="f")], [tensor("x", [4])],
                 [tensor("y", [4])], functions=functions, domains=["f"])


def short_weight():
    made = linear()[0]
    made.graph.initializer[0].raw_data = b"1234"
    return made


def wide_weight(dims):
    made = linear()[0]
    del made.graph.initializer[0].dims[:]
    made.graph.initializer[0].dims.extend(dims)
    return made


def many_messages():
    """Empty nodes, two bytes each, which would be objects of 200."""
    return bytes([0x08, 10, 0x3A, 0x80, 0x80, 0x80, 0x01]) + bytes([0x0A, 0x00]) * (1 << 20)


CASES = {
    "no model": (lambda: b"garbage of another kind", "not an ONNX model"),
    "empty": (lambda: b"", "no graph"),
    "cut": (lambda: linear()[0].SerializeToString()[:-40], "not an ONNX model"),
    "cycle": (lambda: model([helper.make_node("Add", ["x", "b"], ["a"], name="first"),
                             helper.make_node("Neg", ["a"], ["b"])],
                            [tensor("x", [4])], [tensor("b", [4])]), "first.*reads \"b\""),
    "unknown name": (lambda: unary("Relu", inputs=("z",)), "reads \"z\""),
    "two of a name": (lambda: model([helper.make_node("Neg", ["x"], ["y"]),
                                     helper.make_node("Abs", ["x"], ["y"], name="again")],
                                    [tensor("x", [4])], [tensor("y", [4])]), "again.*already"),
    "no output": (lambda: model([], [tensor("x", [4])], [tensor("y", [4])]), "makes the output"),
    "missing input": (lambda: unary("Add"), "node.*input 1 is missing"),
    "no utf-8": (lambda: renamed(unary("Relu"), b"node", b"n\xff\xfee"), "UTF-8"),
    "short weight": (short_weight, "\"w\".*4 bytes of data, want 160"),
    "sizes that overflow": (lambda: wide_weight([2**40, 2**40]), "\"w\".*2\\^40 elements"),
    "a size below 0": (lambda: wide_weight([-8, -5]), "\"w\".*size of -8"),
    "a huge weight": (lambda: wide_weight([2**20, 2**15]), "\"w\".*bytes of data"),
    "a huge tensor": (lambda: model([helper.make_node("Expand", ["x", "s"], ["y"], name="node")],
                                    [tensor("x", [1])], [tensor("y", None)],
                                    [weight("s", numpy.array([2**30, 2**30]))]), "node"),
    "a wrong attribute": (lambda: unary("Softmax", axis=0.5), "node.*attribute axis"),
    "an axis out of range": (lambda: unary("Softmax", axis=7), "node.*axis 7 is out of range"),
    "wrong types": (lambda: unary("Add", [weight("w", numpy.array([1, 2, 3, 4]))], ("x", "w")),
                    "node.*types float32 and int64"),
    "shapes that differ": (lambda: unary("Add", [weight("w", numpy.ones(3, numpy.float32))],
                                         ("x", "w")), "node.*sizes"),
    "a reshape that loses": (lambda: unary("Reshape", [weight("s", numpy.array([3]))],
                                           ("x", "s")), "node.*want 3"),
    "nested bodies": (lambda: nested(100), "deep"),
    "recursion": (recursive, "deeper than 32"),
    "doubling": (doubling, "more than"),
    "an endless loop": (lambda: model(
        [helper.make_node("Loop", ["", "", "x"], ["y"], name="node", body=helper.make_graph(
            [helper.make_node("Identity", [a], [b]) for a, b in (("g", "h"), ("s", "t"))],
            "b", [tensor("i", [], TensorProto.INT64), tensor("g", [], TensorProto.BOOL),
                  tensor("s", [4])],
            [tensor("h", [], TensorProto.BOOL), tensor("t", [4])]))],
        [tensor("x", [4])], [tensor("y", [4])]), "node.*whose end is not known"),
    "many messages": (many_messages, "not an ONNX model|not a model"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    make, message = CASES[name]
    with pytest.raises((ValueError, tv.UnsupportedError), match=f"(?s){message}"):
        tv.onnx.compile(make(), fallback="none")


def message_fields():
    """Of each list of messages that a model may hold: its name, and the numbers of the fields to
    it."""
    paths, seen, found = [(onnx.ModelProto.DESCRIPTOR, ())], set(), {}
    for message, path in paths:  # grows
        for inner in message.fields:
            if inner.message_type and inner.full_name not in seen:
                seen.add(inner.full_name)
                paths.append((inner.message_type, (*path, inner.number)))
                new = hasattr(inner, "is_repeated")  # of protobuf, in place of `label`
                if inner.is_repeated if new else inner.label == inner.LABEL_REPEATED:
                    found[inner.full_name] = paths[-1][1]
    return found


def test_empty_messages_of_every_kind():
    """A file of half a MiB would become objects of tens: of any message, wherever it may be."""
    fields = message_fields()
    assert {"onnx.GraphProto.node", "onnx.TrainingInfoProto.update_binding",
            "onnx.TensorAnnotation.quant_parameter_tensor_names"} <= set(fields)
    for name, (*path, last) in fields.items():
        if last > 15:  # three bytes each: less than 32 times as much where the message is small
            continue
        data = field(last, b"") * (1 << 18)
        for number in reversed(path):
            data = field(number, data)
        with pytest.raises(ValueError, match="bytes of messages: not a model"):
            tv.onnx.compile(data)
            pytest.fail(name)


LIMITED = """
import resource
import test_hostile_files as hostile

from torch_vulkan._native import C
for name in ("many messages", "a huge tensor", "a huge weight", "doubling"):
    made = hostile.CASES[name][0]()
    data = made if isinstance(made, bytes) else made.SerializeToString()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        C.import_onnx_bytes(data, {"inputs": {}, "constants": {},
                                   "directory": ""})
    except Exception as error:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(name, grown)
"""


def test_memory_is_bounded():
    """Peak memory of the import grows by less than 128 MiB and 32 times the file."""
    here = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, cwd=here,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(
                             [str(here), os.environ.get("PYTHONPATH", "")])})
    assert run.returncode == 0, run.stderr
    grown = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1])
             for line in run.stdout.splitlines()}
    assert len(grown) == 4
    size_kib = {name: len(onnx_models.serialized(CASES[name][0]())
                          if name != "many messages" else many_messages()) // 1024
                for name in grown}
    for name, kib in grown.items():
        assert kib < 128 * 1024 + 32 * size_kib[name], (name, kib)
