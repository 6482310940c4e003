"""Several profiles in one engine: each call runs the kernels of the nearest."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from helpers import assert_same
from marks import turns


def kernels(program, rows):
    """Name and tactic of each layer that a call with so many rows runs."""
    with tv.profile(program, runs=1) as profile:
        program(torch.randn(rows, 256))
    return [(layer["name"], layer["tactic"]) for layer in profile.layers]


@turns(2)
def test_tactics_by_the_actual_shape(tactics_of, tmp_path):
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)).eval()
    whole = tv.Input(min_shape=(1, 256), opt_shape=(4, 256), max_shape=(512, 256))
    few, many = ((1, 256), (1, 256), (16, 256)), ((8, 256), (512, 256), (512, 256))
    program = tv.compile(model, [whole], min_block_size=1,
                         profiles=[tv.Profile(input=few), tv.Profile(input=many)])
    alone = []
    for low, opt, high in (few, many):
        part = tv.Input(min_shape=low, opt_shape=opt, max_shape=high)
        alone.append(kernels(tv.compile(model, [part], min_block_size=1), opt[0]))
    assert alone[0] != alone[1], "other kernels are chosen for other usual sizes"
    tv.save(program, tmp_path / "net.pt2")
    for each in (program, tv.load(tmp_path / "net.pt2")):
        # From 8 to 16 both fit: the nearer usual size decides.
        for rows, nearest in ((1, 0), (7, 0), (8, 0), (16, 0), (17, 1), (512, 1)):
            assert kernels(each, rows) == alone[nearest]
            x = torch.randn(rows, 256)
            assert_same(each(x), model(x).detach())
        with pytest.raises(ValueError, match="dimension 0: got 513, want 1 to 512"):
            each(torch.randn(513, 256))
