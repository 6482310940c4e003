"""workloads/switches.py: gradients where float32 does not tell an activation from a switch."""


import pytest
import torch
from torch import nn

from helpers import assert_follows
from workloads.checks import gradient_error, gradients_of
from workloads.switches import Switches, nearest

INPUTS = {"input": torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)}


def network(activation, offset):
    """Its activation sees (offset, 1, -2) above the least of its switches."""
    torch.manual_seed(0)
    first, last = nn.Linear(3, 3), nn.Linear(3, 4)
    module = nn.Sequential(first, activation, last).double()
    with torch.no_grad():
        first.bias += INPUTS["input"].new_tensor([offset, 1.0, -2.0]) - first(INPUTS["input"])[0]
    return module


def other_side(module, at):
    """Gradients as rounding would give them that moves the first activation across `at`."""
    moved = {"input": INPUTS["input"].clone()}
    with torch.no_grad():
        module[0].bias[0] += at
    found = gradients_of(module, module, moved)[1]
    with torch.no_grad():
        module[0].bias[0] -= at
    return found


@pytest.mark.parametrize("activation,offset,step", [
    (nn.ReLU(), 1e-9, -2e-9), (nn.ReLU(), -1e-9, 2e-9), (nn.ReLU6(), 6 - 1e-9, 2e-9),
    (nn.ReLU6(), 6 + 1e-9, -2e-9), (nn.ReLU6(), 1e-9, -2e-9)])
def test_a_place_beside_a_switch_may_be_on_either_side(activation, offset, step):
    module = network(activation, offset)
    got = other_side(module, step)
    with Switches(module) as switches:
        def gradients():
            return gradients_of(module, module, INPUTS)[1]

        as_is = gradients()
        assert gradient_error(got, as_is) > 0.1
        error, moved = nearest(lambda g: gradient_error(got, g), as_is, switches, gradients, 1e-6)
        assert (error <= 1e-6, moved, len(switches.near)) == (True, 1, 1)
    assert gradient_error(got, gradients()) > 0.1  # no hook is left


def test_a_place_that_float32_tells_from_the_switch_stays():
    module = network(nn.ReLU(), 1e-5)
    got = other_side(module, -2e-5)
    with Switches(module) as switches:
        def gradients():
            return gradients_of(module, module, INPUTS)[1]

        error, moved = nearest(
            lambda g: gradient_error(got, g), gradients(), switches, gradients, 1e-3)
    assert error > 0.1 and moved == 0 and not switches.near


def test_a_wrong_gradient_is_not_explained_by_a_switch():
    module = network(nn.ReLU(), 1e-9)
    got = [g * 1.01 for g in gradients_of(module, module, INPUTS)[1]]
    with Switches(module) as switches:
        def gradients():
            return gradients_of(module, module, INPUTS)[1]

        error, moved = nearest(
            lambda g: gradient_error(got, g), gradients(), switches, gradients, 1e-3)
    assert error > 5e-3 and moved == 0


@pytest.mark.parametrize("place", range(3))
def test_a_gradient_that_is_no_number_is_an_error(place):
    wanted = [torch.ones(2), torch.ones(3), torch.ones(4)]
    got = [g.clone() for g in wanted]
    assert gradient_error(got, wanted) == 0
    got[place][1] = torch.nan
    for pair in ((got, wanted), (wanted, got)):
        assert not gradient_error(*pair) <= 1e-3
    with pytest.raises(AssertionError, match="the error is nan"):
        assert_follows(got, [g + 1 for g in wanted], wanted, "a.weight")
