"""tv.refit of weights whose memory other weights share, and of weights that were laid out anew."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from helpers import assert_same


def tied(rows=6):
    """Two convolutions, which keep packed forms of their weights; the second's weight is `rows` of
    the first one's memory."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(6, 6, 1), nn.ReLU(), nn.Conv2d(6, rows, 1))
    model.requires_grad_(False)
    model[2].weight.data = model[0].weight.data[:rows]
    return model


X = torch.randn(2, 6, 5, 5)


def values(seed=1):
    return torch.randn(6, 6, 1, 1, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["compiled", "net.pt2", "net.pt"])
def opened(request, tmp_path):
    """Turns a module into a program, some by way of a file."""
    def make(model):
        program = tv.compile(model, [X], min_block_size=1)
        if request.param == "compiled":
            return program
        tv.save(program, tmp_path / request.param, output_format=(
            "torchscript" if request.param == "net.pt" else "exported_program"))
        return tv.load(tmp_path / request.param)
    return make


@pytest.mark.parametrize("rows", [6, 4])
def test_who_shares_its_memory_changes_with_a_weight(opened, rows):
    model, program = tied(rows), opened(tied(rows))  # a deep copy would share no memory
    program(X)
    tv.refit(program, {"0.weight": values()})
    model[0].weight.copy_(values())
    assert_same(program(X), model(X))
    tv.refit(program, {"2.weight": values(2)[:rows]})
    model[2].weight.copy_(values(2)[:rows])
    assert_same(program(X), model(X))
    assert_same(program.get_parameter("0.weight").detach(), model[0].weight)


def test_neighbours_in_one_memory_are_apart():
    """As of weights that were flattened into one buffer."""
    model, flat = tied(), torch.randn(100)
    model[0].weight.data, model[2].weight.data = (
        flat[at:at + 36].view(6, 6, 1, 1) for at in (4, 40))
    program = tv.compile(copy.deepcopy(model), [X], min_block_size=1)
    program(X)
    tv.refit(program, {"0.weight": values()})
    model[0].weight.copy_(values())
    assert_same(program(X), model(X))


def test_one_memory_and_two_values_change_nothing():
    model = tied(4)
    program = tv.compile(model, [X], min_block_size=1)
    before = program(X).clone()
    with pytest.raises(ValueError, match="'2.weight' shares memory with another"):
        tv.refit(program, {"0.weight": values(), "2.weight": values(2)[:4]})
    assert_same(program(X), before)
    new = values()
    new[5, 5] = float("nan")
    tv.refit(program, {"0.weight": new, "2.weight": new[:4].clone()})
    assert_same(program(X), model(X))
    assert program(X).isnan().any()


def test_a_weight_that_is_expanded_is_refused_before_anything_changes():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)).requires_grad_(False)
    model[2].bias = nn.Parameter(torch.zeros(1).expand(6), requires_grad=False)
    x = torch.randn(3, 6)
    program = tv.compile(model, [x], min_block_size=1)
    before = program(x).clone()
    with pytest.raises(ValueError, match="elements of weight '2.bias' share memory"):
        tv.refit(program, {"0.weight": torch.ones(6, 6), "2.bias": torch.ones(6)})
    assert_same(program(x), before)


def test_memory_laid_out_anew_is_seen():
    """`weight.data = …` of the same memory changes neither address nor version counter."""
    model = tied()
    program = tv.compile(model, [X], min_block_size=1)
    program(X)
    model[0].weight.data = model[0].weight.data.transpose(0, 1)
    assert_same(program(X), model(X))
    model[0].weight.data = torch.randn(9, 4, 1, 1)  # as many elements
    with pytest.raises(ValueError, match=r"'0.weight'; got \[9, 4, 1, 1\], want \[6, 6, 1, 1\]"):
        program(X)
    model[0].weight.data = values()
    assert_same(program(X), model(X))


class Shifted(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("shift", torch.full((4,), shift), persistent=False)

    def forward(self, x):
        return torch.relu(self.layer(x)) + self.shift


@pytest.mark.parametrize("form", ["module", "exported", "compiled"])
def test_buffers_that_no_state_dict_holds(form):
    x, other = torch.randn(2, 4), Shifted(2.0)
    program = tv.compile(Shifted(1.0), [x], min_block_size=1)
    program(x)
    tv.refit(program, {"module": other, "exported": torch.export.export(other, (x,)),
                       "compiled": torch.compile(other, backend="eager")}[form])
    assert_same(program(x), other(x).detach())


def test_names_of_modules_behind_torch_compile():
    x, other = torch.randn(2, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    program = tv.compile(copy.deepcopy(other), [x], min_block_size=1)
    for part in (other, other[0]):
        nn.init.normal_(other[0].weight)
        held = nn.Sequential(torch.compile(other[0], backend="eager"), other[1])
        state = (torch.compile(other, backend="eager") if part is other else held).state_dict()
        assert any("_orig_mod." in name for name in state)
        tv.refit(program, state)
        assert_same(program(x), other(x).detach())
