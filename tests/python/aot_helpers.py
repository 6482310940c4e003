"""Programs compiled ahead of time: reduced networks, inputs of dynamic size, other processes."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import torch_vulkan as tv

from workloads.networks import NETWORKS
from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[2]


def rows(low, opt, high, *rest, dtype=torch.float32):
    """An Input with a dynamic first dimension."""
    return tv.Input(min_shape=(low, *rest), opt_shape=(opt, *rest), max_shape=(high, *rest),
                    dtype=dtype)


def compiled(model, inputs, **settings):
    return tv.compile(model, inputs, min_block_size=1, **settings)


def network(name):
    """A reduced network, compiled for batches of 1 to 4, and inputs of a batch size."""
    net = NETWORKS[name]
    model = net.make(True)
    inputs = {key: rows(1, 2, 4, *value.shape[1:], dtype=value.dtype)
              for key, value in net.inputs(2, True, 0).items()}
    return model, tv.compile(model, inputs), lambda batch: net.inputs(batch, True, batch)


def close(got, want):
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()


def python(program, *arguments, **environment):
    """Runs a program in a process of its own; returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], text=True,
                          capture_output=True, env={**os.environ, **environment},
                          timeout=patience(300))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Nested(nn.Module):
    """Keyword inputs, nested structures, results of several kinds, a constant, tied weights."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.randn(8), persistent=False)

    def forward(self, x, pair, *, extra):
        y = self.second(torch.relu(self.first(x))) + self.shift
        z = torch.cat([pair[0], pair[1]["more"]]) * extra["scale"] + torch.tensor([1.0, 2.0])
        return {"y": y, "rest": [z, (x.shape[0], torch.softmax(y, -1))]}


def nested_inputs(batch):
    pair = (torch.randn(3, 2), {"more": torch.randn(5, 2)})
    return (torch.randn(batch, 8), pair), {"extra": {"scale": torch.randn(8, 2)}}


RUN = """
import sys, torch, torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx import engine_call
def never(*args, **kwargs):
    raise SystemExit("something was built")
engine_call.compile_graph = never
path, cases, how = sys.argv[1:4]
program = tv.load(path) if how == "tv" else torch.export.load(path).module()
for args, kwargs, want in torch.load(cases):
    torch.testing.assert_close(program(*args, **kwargs), want, rtol=0, atol=0)
assert not compilations.compilations()
print("same")
"""


def saved(program, cases, folder, **options):
    """Writes the program and what it makes of some arguments."""
    path, expected = folder / "net.pt2", folder / "cases"
    tv.save(program, path, **options)
    torch.save([(args, kwargs, program(*args, **kwargs)) for args, kwargs in cases], expected)
    return path, expected
