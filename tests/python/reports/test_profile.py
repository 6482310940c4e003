"""Times of layers: Engine.profile and tv.profile."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

from helpers import vulkan


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(37, 29), nn.ReLU(), nn.Linear(29, 11), nn.Softmax(-1)).eval()


def test_engine_profile():
    module, x, calls = model(), torch.randn(5, 37), []
    with torch.no_grad(), engine_call.collected(calls):
        wanted = vulkan(module)(x)
    engine = tv.Engine(calls[0].vke())
    parameters = {tuple(p.shape): p.detach() for p in module.parameters()}
    engine.set_weights([parameters[tuple(w["shape"])] for w in engine.info()["weights"]])
    layers = engine.profile([x], runs=3)
    assert [layer["name"] for layer in layers] == [
        layer["name"] for layer in engine.info()["layers"]]
    assert all(layer["time_us"] > 0 and layer["bytes"] > 0 for layer in layers)
    (got,) = engine.run([x]).values()
    torch.testing.assert_close(got, wanted)


def test_engine_profile_refuses():
    calls = []
    with torch.no_grad(), engine_call.collected(calls):
        vulkan(torch.relu)(torch.randn(3))
    engine = tv.Engine(calls[0].vke())
    with pytest.raises(ValueError, match="runs: got 0"):
        engine.profile([torch.randn(3)], runs=0)
    with pytest.raises(ValueError, match="want 3"):
        engine.profile([torch.randn(4)])


def test_profile_of_a_program(tmp_path):
    module, x = model(), torch.randn(5, 37)
    fast = vulkan(module)
    with torch.no_grad():
        wanted = fast(x)
        with tv.profile(fast, runs=2) as p:
            torch.testing.assert_close(fast(x), wanted)
            fast(x)
        count = len(p.layers)
        fast(x)
        with tv.profile(fast, runs=1) as q:
            fast(x)
    assert {layer["call"] for layer in p.layers} == {0, 1} and count == 2 * len(q.layers)
    assert len(p.layers) == count, "calls after the block are not in it"
    assert p.time_us == pytest.approx(sum(layer["time_us"] for layer in p.layers)) and p.time_us > 0
    lines = p.table().splitlines()
    assert len(lines) == count + 2 and len(p.table(1).splitlines()) == 3
    assert p.layers[0]["tactic"] in p.table()

    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == [layer["name"] for layer in p.layers]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in zip(events, events[1:]))
    p.save(tmp_path / "layers.svg")
    bars = ET.parse(tmp_path / "layers.svg").getroot().findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == count
    text = (tmp_path / "layers.svg").read_text()
    assert f"{count} layers, {p.time_us:.1f} µs in all" in text, "a title with the total"
    ticks = re.findall(r'fill="#555">([0-9.e+-]+)</text>', text)
    longest = max(layer["time_us"] for layer in p.layers)
    assert 2 <= len(ticks) <= 11 and float(ticks[0]) == 0 < float(ticks[-1]) <= longest
    with pytest.raises(ValueError, match="want .json or .svg"):
        p.save(tmp_path / "layers.png")


def test_of_a_program_alone(tmp_path):
    """Others' engines that run in the block are left out; names lead back to the modules."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = model()

        def forward(self, x):
            return self.body(x)

    x = torch.randn(5, 37)
    torch.manual_seed(0)
    compiled = [tv.compile(Net().eval(), inputs=[x], min_block_size=1) for _ in range(2)]
    with tv.profile(compiled[1], runs=2) as p:
        compiled[0](x)
        compiled[1](x)
    with tv.profile(runs=2) as both:
        compiled[0](x)
        compiled[1](x)
    assert {layer["call"] for layer in p.layers} == {0}
    assert len(both.layers) == 2 * len(p.layers)
    (engine,) = tv.engines(compiled[1])
    assert [layer["name"] for layer in p.layers] == [
        layer["name"] for layer in engine.info()["layers"]]
    modules = {name for name, _ in Net().named_modules()}
    assert {layer["module_path"] for layer in p.layers} <= modules
    assert p.layers[0]["module_path"] in p.table()
    count, *layers = json.loads(p.to_json(tmp_path / "profile.json"))
    assert count == {"count": 2} and json.loads((tmp_path / "profile.json").read_text())[0] == count
    assert [layer["modulePath"] for layer in layers] == [
        layer["module_path"] for layer in p.layers]
    assert sum(layer["percentage"] for layer in layers) == pytest.approx(100)
    with pytest.raises(ValueError, match="got int"):
        with tv.profile(3):
            pass


def test_of_engines_and_sessions():
    """What runs without torch.compile is timed, too, in the order of the calls."""
    onnx = pytest.importorskip("onnx")
    nodes = [onnx.helper.make_node("Exp", ["x"], ["y"], "/body/Exp")]
    graph = onnx.helper.make_graph(nodes, "exp", [
        onnx.helper.make_tensor_value_info("x", 1, [7])], [
        onnx.helper.make_tensor_value_info("y", 1, [7])])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)],
                                  ir_version=10)
    session, x = tv.onnx.compile(made), torch.randn(7)
    fast, y = vulkan(model()), torch.randn(5, 37)
    with torch.no_grad(), tv.profile(runs=2) as p:
        session(x)
        fast(y)
        torch.testing.assert_close(session.engine.run([x])["y"], x.exp())
    engines = list(dict.fromkeys((layer["call"], layer["engine"]) for layer in p.layers))
    assert [call for call, _ in engines] == [0, 1, 2]
    assert engines[0][1] == engines[2][1] == "exp" != engines[1][1]
    assert p.layers[0]["time_us"] > 0 and p.layers[0]["module_path"] == "body"
    with tv.profile(session, runs=2) as q:
        session(x)
        tv.Engine(session.engine._vke).run([x])
    assert len(q.layers) == 1
    session(x)
    assert len(q.layers) == 1, "calls after the block are not in it"


def test_nothing_ran():
    with tv.profile() as p:
        torch.relu(torch.randn(3))
    assert p.layers == [] and "0 layers" in p.table()
    with pytest.raises(ValueError, match="runs=0"):
        with tv.profile(runs=0):
            pass
