"""Weights that change after an engine is built."""

import itertools
import threading

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

from helpers import assert_follows, assert_same, vulkan
from marks import turns
from workloads.networks import NETWORKS


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def standalone(model, *inputs):
    """A stand-alone engine of a module, and the module's weights by the engine's names."""
    calls = []
    with engine_call.collected(calls):
        vulkan(model, require_full_compilation=True)(*inputs)
    engine = tv.Engine(calls[0].vke())
    by_shape = {tuple(p.shape): p.detach() for p in model.state_dict().values()}
    return engine, {w["name"]: by_shape[tuple(w["shape"])] for w in engine.info()["weights"]}


@pytest.fixture
def two_layers():
    model = TwoLayers().requires_grad_(False)
    engine, weights = standalone(model, torch.randn(3, 8))
    return model, engine, weights


def same(model, engine):
    x = torch.randn(3, 8)
    (got,) = engine.run([x]).values()
    assert_same(got, model(x))


def test_refit_by_name(two_layers):
    model, engine, weights = two_layers
    engine.set_weights(weights)
    same(model, engine)
    for name, weight in weights.items():
        weight.add_(1)  # the module's own
        engine.refit({name: weight})
        same(model, engine)


def test_stripped_engine_is_completed_in_parts(two_layers, tmp_path):
    model, engine, weights = two_layers
    engine.set_weights(weights)
    engine.save(tmp_path / "stripped.vke", strip_weights=True)
    engine.save(tmp_path / "whole.vke")
    same(model, tv.Engine.load(tmp_path / "whole.vke"))
    stripped = tv.Engine.load(tmp_path / "stripped.vke")
    assert stripped.missing_weights() == [*weights]
    first, *others = weights
    with pytest.raises(ValueError, match="4 of 4 are still missing"):
        stripped.run([torch.randn(3, 8)])
    stripped.refit({first: weights[first]})
    with pytest.raises(ValueError, match="3 of 4 are still missing"):
        stripped.run([torch.randn(3, 8)])
    stripped.refit({name: weights[name] for name in others})
    assert stripped.missing_weights() == []
    same(model, stripped)


def test_wrong_weights_change_nothing(two_layers):
    model, engine, weights = two_layers
    engine.set_weights(weights)
    good, bad = [*weights][:2]
    new = weights[good] + 1
    for wrong, message in ((torch.zeros(2), "got shape"), (weights[bad].double(), "float64"),
                           ("text", "got str")):
        with pytest.raises(ValueError, match=message):
            engine.refit({good: new, bad: wrong})
        same(model, engine)
    with pytest.raises(ValueError, match="no weight 'nonsense'; it has"):
        engine.refit({good: new, "nonsense": new})
    same(model, engine)


def test_refit_reads_what_torch_cannot_see():
    model = nn.Linear(8, 5).requires_grad_(False)
    calls = []
    with engine_call.collected(calls):
        fast = vulkan(lambda x: model(x))
        fast(torch.randn(3, 8))
    engine = calls[0].engine
    weights = [model.weight, model.bias]
    order = {tuple(w.shape): w for w in weights}
    ordered = [order[tuple(w["shape"])] for w in tv.Engine(calls[0].vke()).info()["weights"]]
    model.weight.data.copy_(torch.randn(5, 8))
    engine.refit(ordered, [i for i, w in enumerate(ordered) if w is model.weight])
    x = torch.randn(3, 8)
    assert_same(fast(x), model(x))
    assert engine.weight_sets() == 1


def test_refit_of_immutable_weights_is_refused():
    model = nn.Linear(8, 5).requires_grad_(False)
    calls = []
    with engine_call.collected(calls):
        vulkan(model, immutable_weights=True)(torch.randn(3, 8))
    with pytest.raises(ValueError, match="immutable_weights=True"):
        calls[0].engine.refit([model.weight, model.bias], [])


@turns(3)
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base", "GPT-2"])
def test_every_weight_is_refitted(name):
    """Perturbs the weights one by one: those behind folded batch norms, packed layouts and joined
    products too. Each change is seen, on top of those before it."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    model, inputs = network.make(True).requires_grad_(False), network.inputs(1, True, 0)
    calls = []
    with engine_call.collected(calls), torch.no_grad():
        fast = torch.compile(model, backend="vulkan")
        want = model(**inputs)
        torch.testing.assert_close(fast(**inputs), want, rtol=2e-4, atol=2e-4)
        generator = torch.Generator().manual_seed(1)
        for key, weight in (*model.named_parameters(), *model.named_buffers()):
            if not weight.is_floating_point():
                continue
            change = torch.rand(weight.shape, generator=generator)
            weight.mul_(1 + 0.2 * change).add_(0.05 * change)
            before, want = want, model(**inputs)
            assert_follows(fast(**inputs), before, want, key)
    assert all(call.engine.weight_sets() <= 1 for call in calls)

def test_calls_while_another_thread_refits_see_one_set_of_weights(device):
    """The device may read weights where the tensors have them: they live as long as a call does."""
    weights = [torch.full((64, 64), float(i)) for i in range(3)]
    program = tv.compile(torch.nn.Linear(64, 64, bias=False).eval().requires_grad_(False),
                         inputs=[tv.Input((2, 64))], min_block_size=1)
    engine, x = tv.engines(program)[0], torch.ones(2, 64)
    (name,) = (w["name"] for w in engine.info()["weights"])
    engine.refit({name: weights[0]})
    done = threading.Event()

    def refit():
        for i in itertools.cycle(range(3)):
            if done.is_set():
                break
            engine.refit({name: weights[i]})

    thread = threading.Thread(target=refit)
    thread.start()
    try:
        for _ in range(200):
            (result,) = engine.run([x]).values()
            assert result.unique().tolist() in ([0.0], [64.0], [128.0])
    finally:
        done.set()
        thread.join()


def test_two_refits_at_a_time():
    """What engines compute with are the weights that the program then has."""
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 64))
    x = torch.randn(5, 64)
    program = tv.compile(model, inputs=[x], min_block_size=1)
    others = [{name: tensor.detach() * factor for name, tensor in model.state_dict().items()}
              for factor in (0.5, 1.5)]
    for _ in range(60):
        threads = [threading.Thread(target=tv.refit, args=(program, other)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with torch.no_grad():
            want = torch.func.functional_call(model, dict(program.state_dict()), (x,))
            torch.testing.assert_close(program(x), want, rtol=1e-3, atol=1e-3)
