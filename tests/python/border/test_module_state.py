"""Buffers that modules change as they run - recurrent states, averages of weights, rings of what
came before - in inference and between training steps: eager's values, call by call."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import vulkan
from marks import turns


class Averaged(nn.Module):
    """Batches beside the moving average of what came before; and the weights' own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("weights", self.linear.weight.detach().clone())
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.weights.lerp_(self.linear.weight, 0.25)
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.steps.add_(1)
            return self.linear(x - self.mean).tanh()
        return torch.nn.functional.linear(x - self.mean, self.weights, self.linear.bias).tanh()


class Recurrent(nn.Module):
    """A state that each call leaves for the next one."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(6, 5), nn.Linear(5, 6)
        self.register_buffer("state", torch.zeros(4, 5))

    def forward(self, x):
        state = self.cell(x, self.state.clone())  # gradients read what it was
        with torch.no_grad():
            self.state.copy_(state)
        return self.out(state)


class Ring(nn.Module):
    """The last seven inputs, written in turn."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("kept", torch.zeros(7, 4, 6))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        with torch.no_grad():
            self.kept.index_copy_(0, self.place.remainder(7).reshape(1), x[None])
            self.place.add_(1)
        return self.linear(x + self.kept.mean(0))


class Window(nn.Module):
    """The last seven inputs in their order, the latest at either end."""

    def __init__(self, rolled, first=False):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.rolled, self.first = rolled, first
        self.register_buffer("kept", torch.zeros(4, 7, 6))

    def forward(self, x):
        with torch.no_grad():
            if self.rolled:
                moved = self.kept.roll(1 if self.first else -1, 1)
                moved[:, torch.tensor([0 if self.first else -1])] = x[:, None]
            elif self.first:
                moved = torch.cat([x[:, None], self.kept[:, :-1]], 1)
            else:
                moved = torch.cat([self.kept[:, 1:], x[:, None]], 1)
            self.kept.copy_(moved)
        return self.linear(self.kept).sum(1)


MODULES = {
    "averages": Averaged, "recurrent": Recurrent, "ring": Ring,
    **{f"{'rolled' if rolled else 'joined'}, {'first' if first else 'last'}":
       lambda rolled=rolled, first=first: Window(rolled, first)
       for rolled in (True, False) for first in (True, False)},
}


def made(name):
    torch.manual_seed(0)
    return MODULES[name]()


def assert_alike(ours, theirs):
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}")


@turns(2, group="modes")
@pytest.mark.parametrize("name", MODULES)
def test_training_and_inference_in_turn(name):
    theirs, ours = made(name), made(name)
    fast = vulkan(ours, dynamic=False)
    compilations.clear()
    steps = [(model, torch.optim.SGD(model.parameters(), 0.1)) for model in (theirs, ours)]
    held = {key: value.data_ptr() for key, value in ours.named_buffers()}
    for call in range(12):
        x = torch.randn(4, 6)
        training = call % 4 < 2
        got = []
        for (model, optimizer), run in zip(steps, (theirs, fast), strict=True):
            model.train(training)
            with torch.set_grad_enabled(training):
                got.append(run(x))
            if training:
                optimizer.zero_grad()
                got[-1].square().mean().backward()
                optimizer.step()
        torch.testing.assert_close(got[1], got[0])
        assert_alike(ours, theirs)
    assert {key: value.data_ptr() for key, value in ours.named_buffers()} == held
    kinds = {record.kind for record in compilations.compilations() if record.engines}
    assert kinds == {"forward", "backward", "inference"}


@turns(2, group="modes")
@pytest.mark.parametrize("name", [n for n in MODULES if n not in ("averages", "recurrent")])
def test_inference_copies_nothing(name):
    """An engine writes each buffer where it lies. (A value that is computed of all of the buffer,
    as a GRU's next state is, is copied there.)"""
    module = made(name).eval()
    with torch.no_grad():
        report = tv.dry_run(module, [torch.randn(4, 6)], min_block_size=1)
    writes = [write for graph in report.data["graphs"] for write in graph["writes"]]
    assert {write["input"] for write in writes} == {key for key, _ in module.named_buffers()}
    assert all(write["in_place"] for write in writes), writes
