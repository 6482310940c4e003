"""Weights of 4 bits that torchao holds in int8: engines hold them in 4."""

import copy
import warnings

import pytest
import torch
from torch import nn

import torch_vulkan as tv

MISSING = "torchao is not installed: pip install torchao"
quantization = pytest.importorskip("torchao.quantization", reason=MISSING)

OPTIONS = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0,
           "pass_through_build_failures": True}
WIDTHS = (256, 512, 384)
GROUP = 32


def network(config, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(*WIDTHS[:2]), nn.ReLU(), nn.Linear(*WIDTHS[1:], bias=False))
    quantization.quantize_(model.to(dtype).eval(), config)
    return model


def weight_only(dtype=torch.int4, **options):
    return quantization.IntxWeightOnlyConfig(
        weight_dtype=dtype, granularity=quantization.PerGroup(GROUP), **options)


def asymmetric():
    return weight_only(mapping_type=quantization.MappingType.ASYMMETRIC)


def dynamic():
    return quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=quantization.PerGroup(GROUP))


def outcomes(model, x):
    report = tv.dry_run(model, [x], min_block_size=1)
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


def held(program):
    (engine,) = tv.engines(program)
    return engine.info()["memory"]["weights_held"]


def beyond(model):
    """A copy whose first weight has an integer that 4 bits do not hold."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.qdata[3, 5] = 8
    return other


@pytest.mark.parametrize("config", [weight_only, asymmetric, dynamic,
                                    lambda: weight_only(torch.int3)])
@torch.no_grad()
def test_results_are_torchaos(config):
    model, x = network(config()), torch.randn(5, WIDTHS[0])
    program = tv.compile(model, inputs=[x], **OPTIONS)
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    for result in (program(x), compiled(x)):
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)
    assert outcomes(model, x).count("read packed by 1 product, in 4 bits") == 2


@torch.no_grad()
def test_memory_is_that_of_four_bits():
    x = torch.randn(5, WIDTHS[0], dtype=torch.bfloat16)
    four, eight = (tv.compile(network(weight_only(bits), dtype=x.dtype), inputs=[x], **OPTIONS)
                   for bits in (torch.int4, torch.int8))
    elements = sum(k * n for k, n in zip(WIDTHS, WIDTHS[1:], strict=False))
    assert held(four) <= 0.31 * 2 * elements, "0.25, and a scale and a zero point for 32 of them"
    assert held(eight) >= 1.08 * elements


@torch.no_grad()
def test_refit_with_other_weights(tmp_path):
    model, other, x = (*(network(asymmetric(), seed) for seed in (0, 1)),
                       torch.randn(5, WIDTHS[0]))
    program = tv.compile(model, inputs=[x], **OPTIONS)
    again = tv.compile(other, inputs=[x], **OPTIONS)
    tv.refit(program, again.state_dict())
    torch.testing.assert_close(program(x), other(x), rtol=1e-4, atol=1e-4)
    tv.save(program, tmp_path / "net.pt2")
    torch.testing.assert_close(tv.load(tmp_path / "net.pt2")(x), program(x), rtol=0, atol=0)
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    compiled(x)
    model[0].weight.qdata.copy_(other[0].weight.qdata)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_values_beyond_four_bits_stay_in_eight():
    model, x = beyond(network(weight_only())), torch.randn(5, WIDTHS[0])
    program = tv.compile(model, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    assert sorted(outcomes(model, x)) == ["read packed by 1 product",
                                          "read packed by 1 product, in 4 bits"]


@torch.no_grad()
def test_refit_with_values_beyond_four_bits():
    model, x = network(weight_only()), torch.randn(5, WIDTHS[0])
    program = tv.compile(model, inputs=[x], **OPTIONS)
    before = program(x)
    bad = beyond(model)
    state = program.state_dict()
    name = next(name for name, value in state.items() if value.dtype == torch.int8 and (
        torch.equal(value, model[0].weight.qdata)))
    with pytest.raises(RuntimeError, match=r"\[four_bits\] the weight of .* beyond -8 to 7"):
        tv.refit(program, {**state, name: bad[0].weight.qdata})
    assert torch.equal(program(x), before), "nothing is lost"
    compiled = torch.compile(model, backend="vulkan", options={
        **OPTIONS, "pass_through_build_failures": False, "require_full_compilation": False})
    compiled(x)
    model[0].weight.qdata.copy_(bad[0].weight.qdata)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that PyTorch runs it
        torch.testing.assert_close(compiled(x), bad(x), rtol=1e-4, atol=1e-4)
