"""EPContext models of ONNX Runtime's provider: the engines of another model, and its own again."""

import json

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime
from provider_tests import NAME, session
from test_provider import check, detector, random

from onnx_models import linear

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")


def compiled(made, folder, embed):
    """The path of the context model."""
    provider_tests.register()
    settings = onnxruntime.SessionOptions()
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME)
    settings.add_provider_for_devices([device], {"builder_optimization_level": "0",
                                                 "min_subgraph_size": "1"})
    onnx.save(made, folder / "net.onnx")
    path = folder / "net_ctx.onnx"
    onnxruntime.ModelCompiler(settings, str(folder / "net.onnx"),
                              embed_compiled_data_into_model=embed).compile_to_file(str(path))
    return path


@pytest.mark.parametrize("embed", [True, False])
def test_a_context_model_runs_without_its_source(embed, tmp_path):
    made, _ = linear()
    path = compiled(made, tmp_path, embed)
    (node,) = onnx.load(path).graph.node
    assert node.op_type == "EPContext" and not onnx.load(path).graph.initializer
    (tmp_path / "net.onnx").unlink()
    assert len([*tmp_path.iterdir()]) == (1 if embed else 2)
    opened, direct = session(path), session(made)
    for batch in (1, 5):
        x = random(batch, 8, seed=batch)
        numpy.testing.assert_array_equal(opened.run(None, {"x": x})[0],
                                         direct.run(None, {"x": x})[0])


def test_compatibility_is_told_before(tmp_path):
    path = compiled(linear()[0], tmp_path, True)
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    ask = runtime.get_model_compatibility_for_ep_devices
    kinds = runtime.OrtCompiledModelCompatibility
    properties = {p.key: p.value for p in onnx.load(path).metadata_props}
    own = properties[f"ep_compatibility_info.{NAME}"]
    assert ask(devices, own) == kinds.EP_SUPPORTED_OPTIMAL
    made = json.loads(own)
    tuned = json.dumps({**made, "tuned_for": "another device"})
    assert ask(devices, tuned) == kinds.EP_SUPPORTED_PREFER_RECOMPILATION
    others = json.dumps({**made, "runs_on": "another device"})
    for text in (others, "junk{", "[]", "{}", '{"runs_on": 1}', '"text"'):
        assert ask(devices, text) == kinds.EP_UNSUPPORTED, text


def test_contexts_between_other_nodes(tmp_path):
    made = detector()
    path = compiled(made, tmp_path, True)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert "EPContext" in kinds and "NonMaxSuppression" in kinds
    check(made, {"x": random(1, 8), "logits": random(1, 1, 12, seed=3)}, session(path))


def test_a_damaged_context(tmp_path):
    path = compiled(linear()[0], tmp_path, True)
    whole = onnx.load(path)
    (data,) = [a for a in whole.graph.node[0].attribute if a.name == "ep_cache_context"]
    original = data.s
    for at in [*range(0, len(original), len(original) // 40), len(original) - 1]:
        data.s = original[:at] + bytes([original[at] ^ 1]) + original[at + 1:]
        with pytest.raises(Exception, match=NAME):
            session(whole)
        data.s = original[:at]
        with pytest.raises(Exception, match=NAME):
            session(whole)
    data.s = original
    session(whole)


@pytest.mark.parametrize("key, value, message", [
    ("embed_mode", 7, "embed_mode: got 7, want 0 or 1"),
    ("embed_mode", -1, "embed_mode: got -1, want 0 or 1"),
    ("main_context", 2, "main_context: got 2, want 0 or 1"),
    ("main_context", 0, "main_context: got 0, want 1: a node has its engine")])
def test_numbers_of_a_node_that_mean_nothing(key, value, message, tmp_path):
    changed = onnx.load(compiled(linear()[0], tmp_path, True))
    (number,) = [a for a in changed.graph.node[0].attribute if a.name == key]
    number.i = value
    with pytest.raises(Exception, match=f'the EPContext node ".*": {message}'):
        session(changed)


@pytest.mark.parametrize("key", ["ep.context_enable", "ep.context_embed_mode",
                                 "ep.enable_weightless", "ep.enable_weightless_ep_context_nodes"])
def test_flags_of_a_session_that_mean_nothing(key):
    """ONNX Runtime takes any text."""
    with pytest.raises(Exception, match=f"{key}: got '7', want 0 or 1"):
        session(linear()[0], {key: "7"})


@pytest.mark.parametrize("kind", ["int8", "uint32", "string", "undefined"])
def test_a_context_for_results_of_another_type(kind, tmp_path):
    """The runtime would allocate less than the engine writes, or no tensor."""
    path = compiled(linear()[0], tmp_path, True)
    changed = onnx.load(path)
    declared = changed.graph.output[0].type
    if kind == "undefined":
        declared.CopyFrom(helper.make_sequence_type_proto(declared))
    else:
        declared.tensor_type.elem_type = getattr(TensorProto, kind.upper())
    with pytest.raises(Exception, match=f"is of type {kind} in the model, and not float32"):
        session(changed)


@pytest.mark.parametrize("embed", [True, False])
def test_contexts_of_a_context_model(embed, tmp_path):
    """The same engines, in another model."""
    made, _ = linear()
    first = compiled(made, tmp_path, True)
    (tmp_path / "again").mkdir()
    second = tmp_path / "again" / "second.onnx"
    session(first, {"ep.context_enable": "1", "ep.context_embed_mode": str(int(embed)),
                    "ep.context_file_path": str(second)})
    assert len([*second.parent.iterdir()]) == (1 if embed else 2)
    check(made, {"x": random(3, 8)}, session(second))


@pytest.mark.parametrize("name", ["../net.vke", "/etc/passwd", "missing.vke"])
def test_contexts_lie_beside_the_model(name, tmp_path):
    path = compiled(linear()[0], tmp_path, False)
    changed = onnx.load(path)
    (data,) = [a for a in changed.graph.node[0].attribute if a.name == "ep_cache_context"]
    data.s = name.encode()
    onnx.save(changed, path)
    with pytest.raises(Exception, match="EPContext"):
        session(path)
