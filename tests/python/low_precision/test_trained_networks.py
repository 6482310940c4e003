"""What quantisation takes from networks that are trained here, on inputs they have not seen; and
that a wrong scale or zero point would be noticed."""

import copy
import functools

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from marks import turns
from workloads import quantised_networks
from workloads.trained_networks import (
    IMAGES,
    SEQUENCES,
    TEXTS,
    perplexity,
    top_1,
    trained,
)

STRICT = {"min_block_size": 1, "require_full_compilation": True,
          "pass_through_build_failures": True, "optimization_level": 0}
TASKS = {"images": IMAGES, "sequences": SEQUENCES, "texts": TEXTS}
HELD_OUT, COUNT = 1, 2000  # a seed that training and calibration do not use
WORSE = 1.3


@pytest.fixture(scope="module")
def network():
    """A network by the name of its task, trained when it is first asked for."""
    return functools.cache(lambda name: trained(TASKS[name]))


def results(model, name, **options):
    """Results of an engine for the held-out inputs, and the classes."""
    x, label = TASKS[name].data(256 if name == "texts" else COUNT, HELD_OUT)
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(model, backend="vulkan", options=STRICT | options)(x), label


def loss_of_top_1(exact, model, name, **options):
    """How much less of the classes the engine of `model` finds than `exact` in PyTorch does."""
    got, label = results(model, name, **options)
    with torch.no_grad():
        want = exact(TASKS[name].data(COUNT, HELD_OUT)[0])
    assert 0.85 < top_1(want, label) < 0.995, "the network has learnt nothing, or has it too easy"
    assert not torch.allclose(got, want, rtol=1e-3, atol=1e-3), "nothing is quantised"
    return top_1(want, label) - top_1(got, label)


def growth_of_perplexity(exact, model, **options):
    """By what share the engine of `model` is worse than `exact` in PyTorch."""
    got, label = results(model, "texts", **options)
    with torch.no_grad():
        want = exact(TEXTS.data(len(label), HELD_OUT)[0])
    assert perplexity(want, label) < 1.1 * 6.09, "the grammar itself has 6.09, letter counts 14.4"
    assert not torch.allclose(got, want, rtol=1e-3, atol=1e-3), "nothing is quantised"
    return perplexity(got, label) / perplexity(want, label) - 1


def scaled(model, by):
    """As if the weights' scales were read wrongly: their integers stay the same."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                module.weight *= by
            elif getattr(module, "weight_scale", None) is not None:
                module.weight_scale *= by
    return model


def in_int8(model, name, method):
    """Settings for activations of 8 bits."""
    batches = [TASKS[name].data(64, 2 + i)[0] for i in range(4)]
    return {"calibration": tv.calibrate(model, batches, method),
            "enabled_precisions": {torch.float32, torch.int8}}


# --- activations of 8 bits: at most one point ---

@turns(2, each=("name",))
@pytest.mark.parametrize("method", ["entropy", "percentile"])
@pytest.mark.parametrize("name", ["images", "sequences"])
def test_calibrated(network, name, method):
    model = network(name)
    settings = in_int8(model, name, method)
    assert loss_of_top_1(model, model, name, **settings) <= 0.01


@pytest.mark.parametrize("name", ["images", "sequences"])
def test_a_calibrated_network_with_wrong_scales(network, name):
    model = network(name)
    settings = in_int8(model, name, "minmax")
    assert loss_of_top_1(model, scaled(model, WORSE), name, **settings) > 0.1


@pytest.mark.parametrize("name", ["images", "sequences"])
def test_pt2e(network, name):
    if not quantised_networks.has_torchao():
        pytest.skip(quantised_networks.TORCHAO)
    task, model = TASKS[name], network(name)
    batches = [task.data(COUNT, 2 + i)[0] for i in range(2)]
    assert loss_of_top_1(model, quantised_networks.pt2e(model, batches), name) <= 0.01


def test_a_calibrated_text(network):
    model = network("texts")
    settings = in_int8(model, "texts", "percentile")
    assert growth_of_perplexity(model, model, **settings) <= 0.01


# --- weights of 8 bits: at most half a point; of 4 bits: 3 % more perplexity ---

def test_weights_of_8_bits(network):
    model = network("sequences")
    packed = tv.quantize(model, "int8")
    assert loss_of_top_1(model, packed, "sequences") <= 0.005
    assert loss_of_top_1(model, scaled(packed, WORSE), "sequences") > 0.1


def test_a_text_with_weights_of_8_bits(network):
    model = network("texts")
    assert growth_of_perplexity(model, tv.quantize(model, "int8")) <= 0.005


def off_by_one(model):
    """As if zero points were those of another convention."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if getattr(module, "weight_zero_point", None) is not None:
            module.weight_zero_point += 1
    return model


def neighbours_groups(model):
    """As if each group of a row had the scale of the next one."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if getattr(module, "weight_scale", None) is not None:
            module.weight_scale = nn.Buffer(module.weight_scale.roll(1, -1))
    return model


def test_weights_of_4_bits(network):
    model = network("texts")
    assert growth_of_perplexity(model, tv.quantize(model, "int4", group_size=32)) <= 0.03


@turns(2)
@pytest.mark.parametrize("broken", [lambda m: scaled(m, WORSE), off_by_one, neighbours_groups],
                         ids=["scales", "zero points", "groups"])
def test_weights_of_4_bits_that_are_read_wrongly(network, broken):
    model = network("texts")
    assert growth_of_perplexity(model, broken(tv.quantize(model, "int4", group_size=32))) > 0.03
