"""tv.dry_run of ONNX files: what tv.onnx.compile would build, and why the rest is native."""

import json

import jsonschema
import onnx
import pytest
from test_onnx_fallback import compiled, detector, loop_of_data

import torch_vulkan as tv
from torch_vulkan._dry_run.report import SCHEMA

from onnx_models import linear, model, tensor


def reported(*arguments, **settings):
    report = tv.dry_run(*arguments, **settings)
    jsonschema.validate(json.loads(report.to_json()), json.loads(SCHEMA.read_text()))
    return report


def test_a_file_that_is_one_engine(tmp_path):
    onnx.save(linear()[0], tmp_path / "net.onnx")
    report = reported(tmp_path / "net.onnx", {"x": (3, 8)})
    (engine,) = report.engines
    assert report.coverage == 1 and report.data["model"] == "net.onnx"
    assert engine["flops"] == 2 * 3 * 8 * 5 and engine["weight_bytes"] == 4 * (8 * 5 + 5)
    assert engine["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3, 8]}]
    assert report.data["exportable"] is True
    assert "Every node that does work is in an engine" in str(report)


@pytest.mark.parametrize("make, op, why", [
    (detector, "NonMaxSuppression", "no translation"),
    (loop_of_data, "Loop", "computed from data")])
def test_a_file_that_is_divided(make, op, why):
    report = reported(make(), min_block_size=1)
    session = compiled(make())
    assert len(report.engines) == len(session.engines) == 2
    names = [[binding["name"] for binding in engine["inputs"]] for engine in report.engines]
    assert sorted(map(sorted, names)) == sorted(
        sorted(i["name"] for i in engine.info()["inputs"]) for engine in session.engines)
    (row,) = (row for row in report.data["operators"] if row["operator"] == op)
    assert why in row["reason"] and op in row["places"][0]["source"]
    assert report.data["exportable"] is False and 0 < report.coverage < 1
    text = str(report)
    assert "Left to ONNX Runtime" in text and f"{op} x1" in text
    assert report.to_html().count(op) >= 1


def test_an_operator_that_nothing_runs():
    made = linear()[0]
    made.opset_import.append(onnx.helper.make_opsetid("my.d", 1))
    (y,) = made.graph.output
    made.graph.node.append(onnx.helper.make_node("Foo", [y.name], ["z"], name="foo", domain="my.d"))
    y.name = "z"
    report = reported(made, min_block_size=1)
    (row,) = (row for row in report.data["operators"] if row["operator"] == "Foo")
    assert "domain my.d are not supported; nor does anything else run it: " in row["reason"]
    with pytest.raises(tv.UnsupportedError, match="Foo"):
        compiled(made)


def test_sizes_of_blocks_are_those_before_small_ones_went():
    report = reported(detector())  # at min_block_size 5, which takes neither
    assert report.engines == []
    sizes = {row["min_block_size"]: row["engines"] for row in report.data["min_block_size"]}
    assert sizes[1] == 2
    assert all("fewer than min_block_size" in row["reason"] or row["operator"] in (
        "NonMaxSuppression", "Transpose") for row in report.data["operators"])


def whole_and_cut():
    """Mish is several nodes in an engine, and one where it is left out."""
    nodes = [onnx.helper.make_node("Mish", ["x"], ["a"]),
             onnx.helper.make_node("NonZero", ["a"], ["i"]),
             onnx.helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
             onnx.helper.make_node("Mish", ["f"], ["y"])]
    return model(nodes, [tensor("x", [4, 4])], [tensor("y", [2, None])])


@pytest.mark.parametrize("make", [whole_and_cut, detector, loop_of_data])
@pytest.mark.parametrize("least", [1, 3, 5, 50])
def test_no_block_size_covers_more_than_there_is(make, least):
    rows = reported(make(), min_block_size=least).data["min_block_size"]
    assert all(0 <= row["coverage"] <= 1 for row in rows)
    whole = reported(make(), min_block_size=1)
    (first,) = (row for row in rows if row["min_block_size"] == 1)
    assert first["coverage"] == whole.coverage > 0
    assert first["engines"] == len(whole.engines)


def test_bytes_and_settings():
    data = detector().SerializeToString()
    assert len(reported(data, min_block_size=1).engines) == 2
    with pytest.raises(tv.UnsupportedError, match="NonMaxSuppression"):
        tv.dry_run(data, require_full_compilation=True)
    with pytest.raises(ValueError, match="not an ONNX model"):
        tv.dry_run(b"no model")
    with pytest.raises(ValueError, match="no input"):
        tv.dry_run(data, {"z": (1,)})
