"""Graph files of strangers: what is wrong with them is refused, or becomes a condition."""

import json
import struct

import pytest
import torch
from test_graph_file import SETTINGS, Pictures, engine_of, images, network
from torch import nn

import torch_vulkan as tv
from torch_vulkan._native import C


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.vkg"


def parts(path):
    """(header, graph, weights) of a file."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return header, json.loads(header["__metadata__"]["graph"]), data[end:]


def write(path, header, graph, data):
    if not isinstance(graph, str):
        graph = json.dumps(graph)
    header["__metadata__"]["graph"] = graph
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def node(graph, op):
    return next(n for n in graph["nodes"] if n["op"].startswith(op))


def argument(graph, op, name):
    return next(a for a in node(graph, op)["args"] if a["name"] == name)


def changed(argument, **content):
    """Another kind of content."""
    name = argument["name"]
    argument.clear()
    argument.update(name=name, **content)


HOSTILE = {
    "a value that is not there": (lambda g: g["outputs"][0].update(value=9999), "value 9999 of"),
    "a negative value": (lambda g: g["inputs"].append(-1), "value -1 of"),
    "a text for a value": (lambda g: g["inputs"].append("0"), "got string, want an integer"),
    "a cycle": (lambda g: argument(g, "aten::conv", "input").update(
        tensor=g["outputs"][0]["value"]), "before it is made"),
    "a value that is made twice": (lambda g: g["nodes"][1].update(
        outputs=g["nodes"][0]["outputs"]), "made twice"),
    "an input that is a weight": (lambda g: g["inputs"].append(g["weights"][0]), "there twice"),
    "an unknown dtype": (lambda g: g["values"][0].update(dtype="float7"), "dtype 'float7'"),
    "another dtype than the weight's": (
        lambda g: g["values"][g["weights"][0]].update(dtype="int8"), "the graph has int8"),
    "a huge shape": (lambda g: g["values"][-1].update(shape=[2 ** 40, 2 ** 40]), "2.40 elements"),
    "a negative size": (lambda g: g["values"][-1].update(shape=[-4]), "a size of -4"),
    "a size that no expression has": (
        lambda g: g["values"][-1].update(shape=["s0 /"]), "unexpected text"),
    "a size that nests": (
        lambda g: g["values"][-1].update(shape=["(" * 9000 + "1" + ")" * 9000]), "too deep"),
    "an unknown symbol": (lambda g: g["values"][-1].update(shape=["s7"]), "unknown symbol: 's7'"),
    "a symbol that nothing binds": (lambda g: g["symbols"].append(
        {"name": "n", "min": 1, "opt": 1}), "'n': is not determined"),
    "a symbol without sizes": (lambda g: g["symbols"].append(
        {"name": "n", "min": 3, "opt": 2, "max": 1}), "want 0 <= min"),
    "a rank of 65": (lambda g: g["values"][-1].update(shape=[1] * 65), "has 65 items"),
    "nodes of one name": (lambda g: g["nodes"][1].update(name=g["nodes"][0]["name"]), "used twice"),
    "outputs of one name": (lambda g: g["outputs"].append(g["outputs"][0]), "used twice"),
    "inputs of one name": (lambda g: (g["values"].append(g["values"][g["inputs"][0]]),
                                      g["inputs"].append(len(g["values"]) - 1)), "used twice"),
    "an argument that is there twice": (
        lambda g: g["nodes"][0]["args"].append(g["nodes"][0]["args"][0]), "there twice"),
    "an argument of two kinds": (
        lambda g: g["nodes"][0]["args"][0].update(bool=True), "several values"),
    "an unknown kind": (lambda g: g["nodes"][0]["args"][0].update(pickle="x"), "field 'pickle'"),
    "an unknown field": (lambda g: g.update(code="import os"), "unknown field 'code'"),
    "a program that fusion makes": (lambda g: g["nodes"][0].update(op="tv::pointwise"), "program"),
    "no outputs": (lambda g: g["outputs"].clear(), "has no outputs"),
    "no nodes": (lambda g: g.pop("nodes"), "has no 'nodes'"),
    "a long name": (lambda g: g["nodes"][0].update(name="n" * 5000), "has 5000 bytes"),
    "a line in a name": (lambda g: g["nodes"][0].update(name="a\nb"), "control character"),
    "an unknown relation": (lambda g: g["conditions"].append(
        {"relation": "less", "left": 1, "right": 2}), "relation 'less'"),
    "an argument that the operator has not": (
        lambda g: g["nodes"][0]["args"].append({"name": "alpha", "int": 1}),
        r"\[aten::convolution\] node '.*': has no argument 'alpha'"),
    "an argument that is missing": (
        lambda g: node(g, "aten::conv")["args"].pop(1), "argument 'weight' is missing"),
    "a tensor that is None": (
        lambda g: argument(g, "aten::conv", "weight").update(tensor=None), "must not be None"),
    "a number for a tensor": (
        lambda g: changed(argument(g, "aten::conv", "weight"), int=1), "is to be a tensor"),
    "a text for a number": (
        lambda g: changed(argument(g, "aten::_softmax", "dim"), text="1"), "is to be an integer"),
    "a result too many": (
        lambda g: node(g, "aten::relu")["outputs"].append(None), "has 2 results, want 1"),
    "a result of another shape": (
        lambda g: g["values"][node(g, "aten::relu")["outputs"][0]].update(shape=[2, 4, 4, 5]),
        r"\[aten::relu\] node '.*': the result is of shape \[2, 4, 4, 5\], want \[2, 4, 4, 4\]"),
    "a result of another rank": (
        lambda g: g["values"][node(g, "aten::addmm")["outputs"][0]].update(shape=[10]),
        "the result is of rank 1"),
    "a weight of other channels": (
        lambda g: argument(g, "aten::conv", "weight").update(
            tensor=argument(g, "aten::addmm", "self")["tensor"]),
        "argument 'weight' is of rank 1"),
    "a stride of 0": (
        lambda g: argument(g, "aten::conv", "stride").update(ints=[0, 2]), "a stride is 0"),
    "strides that are too few": (
        lambda g: argument(g, "aten::conv", "stride").update(ints=[1, 1, 1]), "has 3 items"),
    "a dim that is not there": (
        lambda g: argument(g, "aten::_softmax", "dim").update(int=5), "dim 5 is out of range"),
    "an operator of passes": (
        lambda g: node(g, "aten::relu").update(op="tv::copy"), "an operator that passes make"),
    "an operator of other arguments": (
        lambda g: node(g, "aten::relu").update(op="aten::mm"), "argument 'mat2' is missing"),
    "a number that is a text": (
        lambda g: node(g, "aten::_softmax")["args"].append({"name": "x", "float": "1"}),
        "'1' is no number"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "net.vkg"
    tv.export_graph(network(Pictures), path, images())
    return path


@pytest.mark.parametrize("change", HOSTILE)
def test_a_wrong_graph_is_refused(change, good, path):
    header, graph, data = parts(good)
    write(path, header, graph, data)
    C.read_graph_file(str(path))
    mutate, says = HOSTILE[change]
    mutate(graph)
    write(path, header, graph, data)
    with pytest.raises(ValueError, match=says):
        C.read_graph_file(str(path))


class Both(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def with_a_size_of_its_own(function, shapes, path):
    """A graph of one symbol, whose second input has another in its place."""
    given = [tv.Input(min_shape=tuple(d or 2 for d in shape), name=name,
                      opt_shape=tuple(d or 4 for d in shape),
                      max_shape=tuple(d or 8 for d in shape))
             for name, shape in zip("xy", shapes, strict=True)]
    tv.export_graph(Both(function), path, given)
    header, graph, data = parts(path)
    assert len(graph["symbols"]) == 1
    graph["symbols"].append({"name": "more", "min": 2, "opt": 4, "max": 8})
    shape = graph["values"][graph["inputs"][1]]["shape"]
    shape[shape.index("s0")] = "s1"
    write(path, header, graph, data)


def test_what_depends_on_sizes_becomes_a_condition(path):
    with_a_size_of_its_own(torch.mm, [(3, None), (None, 5)], path)
    engine = engine_of(path)
    x, y = torch.randn(3, 6), torch.randn(6, 5)
    torch.testing.assert_close([*engine.run([x, y]).values()][0], x @ y, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="aten::mm"):
        engine.run([x, torch.randn(7, 5)])


def test_sizes_that_may_be_1_are_told_apart(path):
    with_a_size_of_its_own(torch.add, [(None, 3), (None, 3)], path)
    with pytest.raises(ValueError, match="'other' is s1, want s0 or 1"):
        C.read_graph_file(str(path))


def nested(header, graph, data, path):
    write(path, header, "[" * 100000, data)


def twice(header, graph, data, path):
    text = json.dumps(graph)
    write(path, header, text[:-1] + ', "nodes": []}', data)


def versioned(header, graph, data, path):
    header["__metadata__"]["version"] = "2"
    write(path, header, graph, data)


def other_format(header, graph, data, path):
    header["__metadata__"]["format"] = "pt"
    write(path, header, graph, data)


def no_text(header, graph, data, path):
    header["__metadata__"]["graph"] = 3
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def cut(header, graph, data, path):
    write(path, header, graph, data[:-4])


def longer(header, graph, data, path):
    write(path, header, graph, data + bytes(4))


def missing(header, graph, data, path):
    header.pop("head.bias")
    write(path, header, graph, data)


def more(header, graph, data, path):
    header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    write(path, header, graph, data)


def outside(header, graph, data, path):
    header["head.bias"]["data_offsets"] = [2 ** 62, 2 ** 62 + 20]
    write(path, header, graph, data)


def no_utf8(header, graph, data, path):
    write(path, header, graph, data)
    path.write_bytes(path.read_bytes().replace(b"stem", b"st\xffm"))


def a_long_header(header, graph, data, path):
    path.write_bytes(struct.pack("<Q", 64 << 20) + b"{" + b" " * (64 << 20))


def half_a_header(header, graph, data, path):
    write(path, header, graph, data)
    path.write_bytes(path.read_bytes()[:1000])


def empty(header, graph, data, path):
    path.write_bytes(b"")


@pytest.mark.parametrize(("change", "says"), [
    (nested, "nested too deeply"), (twice, "occurs twice"), (versioned, "version '2'"),
    (other_format, "no graph file"), (no_text, "no text"), (cut, "wrong offsets"),
    (longer, "bytes of weights"), (missing, "no tensor for the weight 'head.bias'"),
    (more, "the name 'more'"), (outside, "wrong offsets"), (no_utf8, "not valid JSON"),
    (a_long_header, "want at most"), (half_a_header, "cut short"), (empty, "not a .safetensors"),
])
def test_a_damaged_file_is_refused(change, says, good, path):
    change(*parts(good), path)
    with pytest.raises(ValueError, match=says):
        C.read_graph_file(str(path))


def test_an_unknown_operator_is_a_reason(good, path):
    header, graph, data = parts(good)
    node(graph, "aten::relu")["op"] = "aten::rm_rf"
    write(path, header, graph, data)
    plan = C.plan(C.read_graph_file(str(path)).graph, SETTINGS, C.device_profile(""), whole=True)
    assert any("no converter for aten::rm_rf" in line for line in plan.refusals)
