"""Names of parameters and layers are paths in the module's tree, whatever code calls the module."""

import functools
import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx.parameter_names import names, path_of

from workloads.decoders import decoder, prompt

INT8 = {"optimization_level": 0, "min_block_size": 1,
        "enabled_precisions": {torch.float32, torch.int8}}
FORWARD = {"use_cache": False}


class Net(nn.Module):
    """Layers in a container, in a plain list, and a matrix."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(24, 24)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(24, 24))
        self.matrix = nn.Parameter(torch.randn(24, 24))
        self.kept = [nn.Linear(24, 8).eval()]

    def forward(this, x):  # noqa: N805
        return this.kept[0](this.body(this.first(x)).relu() @ this.matrix)


NAMES = {"first.input", "body.1.input", "matrix.input", "kept.0.input"}
net = Net().eval()


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)
    return call


class Decorated(Net):
    forward = decorated(Net.forward)


class Runner:
    """No module, but it has one."""

    def __init__(self, module):
        self.inner = {"net": module}

    def run(self, x):
        return self.inner["net"](x)


def by_argument(model, x):
    return model(x)


def in_a_list(models, x):
    return models[0](x)


def by_keyword(x, *, self):
    return self(x)


def captured():
    module = Net().eval()
    return lambda x: module(x)


WAYS = {"module": lambda: net, "forward": lambda: net.forward,
        "decorated": lambda: Decorated().eval(), "bound": lambda: Decorated().eval().forward,
        "argument": lambda: functools.partial(by_argument, net),
        "list": lambda: functools.partial(in_a_list, [net]),
        "keyword": lambda: functools.partial(by_keyword, self=net),
        "global": lambda: lambda x: net(x), "closure": captured,
        "runner": lambda: Runner(net).run}


@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_ways_to_a_module(way):
    """A calibration of the module and patterns of its layers hold for each."""
    x = torch.randn(6, 24)
    calibration = tv.calibrate(net, [x], "minmax")
    assert {*calibration.scales} == NAMES
    outputs = {}
    for excluded in ((), ("^body[.]1$",), (".",)):
        torch._dynamo.reset()
        compilations.clear()
        function = torch.compile(WAYS[way](), backend="vulkan", options={
            **INT8, "calibration": calibration, "autocast_excluded_nodes": excluded})
        outputs[excluded] = function(x)
        (record,) = compilations.compilations()
        assert record.coverage == 1, record.native
    torch._dynamo.reset()
    whole, some, none = outputs.values()
    torch.testing.assert_close(none, net(x), rtol=1e-4, atol=1e-4)
    assert not torch.equal(whole, some) and not torch.equal(some, none)


def test_two_modules_in_a_function():
    """Those of the first go by its tree."""
    def both(a, other, x):
        return other(a(x))

    seen = tv.dry_run(both, [nn.Linear(8, 8), nn.Linear(8, 8), torch.randn(2, 8)])
    paths = [row["path"] for graph in seen.data["graphs"] for row in graph["modules"]]
    assert paths == ["", "other"]


def test_a_name_is_there_once():
    """The first module's child is named as the second."""
    def both(a, other, x):
        return a(x) + other(x)

    def keep(graph, _):
        found.extend(names(graph).values())
        return graph

    found = []
    a = nn.Sequential()
    a.other = nn.Linear(8, 8)
    torch.compile(both, backend=keep)(a, nn.Linear(8, 8), torch.randn(2, 8))
    assert sorted(found) == [
        "other.bias", "other.bias#2", "other.weight", "other.weight#2", "x"]


@pytest.mark.parametrize("source,root,path", [
    ("L['self'].selfish", "", "selfish"), ("L['args'][0].lm_head", "", "lm_head"),
    ("L['self']", "L['self']", ""), ("L['self'].a", "L['self']", "a"),
    ("L['selfish'].a", "L['self']", "selfish.a"),
    ("L['self']._modules['a']._modules['0']._parameters['w']", "L['self']", "a.0.w"),
    ("L['self'].inner._modules['a'].b[2]", "L['self'].inner", "a.b.2"),
    ("G['net'].a", "L['self']", "net.a"), ("L['x']", "", "x"),
    ("layers.0.a", "L['x']", "layers.0.a")])
def test_paths(source, root, path):
    assert path_of(source, root) == path


@pytest.mark.parametrize("compiled", ["model", "forward"])
@torch.no_grad()
def test_a_decoder_of_transformers(compiled):
    """Its forward is decorated, with arguments of other names."""
    model = decoder("llama")
    ids = prompt(model, 1, 8)["input_ids"]
    calibration = tv.calibrate(model, [{"input_ids": ids, **FORWARD}], "minmax")
    assert "lm_head.input" in calibration.scales
    torch._dynamo.reset()
    fast = torch.compile(model if compiled == "model" else model.forward, backend="vulkan",
                         options={**INT8, "calibration": calibration})
    got, want = fast(input_ids=ids, **FORWARD).logits, model(input_ids=ids, **FORWARD).logits
    assert not torch.equal(got, want)
    torch.testing.assert_close(got, want, rtol=0, atol=0.05)


def test_generation_of_a_calibrated_decoder(tmp_path):
    """Steps are those of the calibration that is given."""
    model = decoder("llama")
    ids = prompt(model, 1, 8)["input_ids"]
    calibration = tv.calibrate(model, [{"input_ids": ids, **FORWARD}], "minmax")
    want = model.generate(ids, max_new_tokens=6, do_sample=False)
    fine = tv.generate(model, ids, 6, **INT8, calibration=calibration)
    assert torch.equal(fine, want)
    coarse = replace(calibration, scales={n: 1e4 for n in calibration.scales})
    assert not torch.equal(tv.generate(model, ids, 6, **INT8, calibration=coarse), want)
    tv.save_decoder(model, tmp_path, 32, **INT8, calibration=calibration)
    assert json.loads((tmp_path / "generation.json").read_text())["positions"] == 32
