"""torchao's quantised modules and graphs: their weights are read as they are packed."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from marks import turns

MISSING = "torchao is not installed: pip install torchao"
quantization = pytest.importorskip("torchao.quantization", reason=MISSING)
primitives = pytest.importorskip("torchao.quantization.quant_primitives", reason=MISSING)

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}


def network(dtype):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64, bias=False)).to(
        dtype).eval()


def outcomes(module, x):
    report = tv.dry_run(module, [x], min_block_size=1)
    return [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]


CONFIGS = {
    "int8 rows": lambda: quantization.Int8WeightOnlyConfig(),
    "int8 groups": lambda: quantization.Int8WeightOnlyConfig(
        granularity=quantization.PerGroup(32)),
    "int8 rows, int4 groups": lambda: quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=quantization.PerGroup(32)),
    "int4 groups": lambda: quantization.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=quantization.PerGroup(32)),
}


@turns(4, each=("config",))
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_quantize_(config, dtype):
    exact, model = network(torch.float32), network(dtype)
    quantization.quantize_(model, CONFIGS[config]())
    x = torch.randn(3, 128).to(dtype)
    eager, compiled = model(x), torch.compile(model, backend="vulkan", options=OPTIONS)
    # Eager rounds weights and products to the dtype in between.
    torch.testing.assert_close(compiled(x), eager, rtol=0.016, atol=torch.finfo(dtype).eps)
    assert not torch.equal(eager, exact(x.float()).to(dtype))
    four_bits = ", in 4 bits" if "int4" in config else ""
    assert outcomes(model, x) == ["read packed by 1 product" + four_bits] * 2


BITS = (1, 2, 3, 5, 6, 7, 8)


@turns(4)
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "ASYMMETRIC"])
@pytest.mark.parametrize("granularity", [
    quantization.PerAxis(0), quantization.PerGroup(32)], ids=["rows", "groups"])
@pytest.mark.parametrize("bits", BITS)
@torch.no_grad()
def test_integers_of_any_number_of_bits(bits, granularity, mapping):
    """Those of 4 bits and fewer are held in 4."""
    model, exact = network(torch.float32), network(torch.float32)
    quantization.quantize_(model, quantization.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"), granularity=granularity,
        mapping_type=getattr(quantization.MappingType, mapping)))
    x = torch.randn(3, 128)
    eager, compiled = model(x), torch.compile(model, backend="vulkan", options=OPTIONS)
    torch.testing.assert_close(compiled(x), eager)
    assert not torch.equal(eager, exact(x))
    four_bits = ", in 4 bits" if bits <= 4 else ""
    assert outcomes(model, x) == ["read packed by 1 product" + four_bits] * 2


@turns(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@torch.no_grad()
def test_weights_of_8_bit_floats(kind, dtype):
    model = network(dtype)
    quantization.quantize_(model, quantization.Float8WeightOnlyConfig(weight_dtype=kind))
    x = torch.randn(3, 128).to(dtype)
    eager, compiled = model(x), torch.compile(model, backend="vulkan", options=OPTIONS)
    # Eager rounds weights and products to the dtype in between.
    torch.testing.assert_close(compiled(x), eager, rtol=2 * torch.finfo(dtype).eps,
                               atol=8 * torch.finfo(dtype).eps)
    assert outcomes(model, x) == ["read packed by 1 product"] * 2


def small_floats():
    """torchao's configurations of small floating-point numbers that run on CPUs, by name."""
    mx = pytest.importorskip("torchao.prototype.mx_formats")
    common = pytest.importorskip("torchao.quantization.quantize_.common")
    emulated = {"kernel_preference": common.KernelPreference.EMULATED}
    four = torch.float4_e2m1fn_x2
    return {
        "float8": lambda: quantization.Float8WeightOnlyConfig(),
        "nvfp4": lambda: mx.NVFP4WeightOnlyConfig(),
        "mxfp8": lambda: mx.MXDynamicActivationMXWeightConfig(**emulated),
        "mxfp4": lambda: mx.MXDynamicActivationMXWeightConfig(
            activation_dtype=four, weight_dtype=four, **emulated)}


@turns(4)
@pytest.mark.parametrize("config", ["float8", "nvfp4", "mxfp8", "mxfp4"])
@torch.no_grad()
def test_small_floats(config):
    dtype = torch.bfloat16
    model = network(dtype)
    quantization.quantize_(model, small_floats()[config]())
    x = torch.randn(3, 128).to(dtype)
    eager, compiled = model(x), torch.compile(model, backend="vulkan", options=OPTIONS)
    # Of weights alone eager rounds numbers and scales in between; dynamic ones are eager's.
    torch.testing.assert_close(compiled(x), eager, rtol=0.016, atol=0.02)
    assert outcomes(model, x).count("read packed by 1 product") == 2


class Affine(nn.Module):
    def __init__(self, block):
        super().__init__()
        torch.manual_seed(1)
        self.block = block
        shape = [size // part for size, part in zip((64, 128), block)]
        self.register_buffer("q", torch.randint(-128, 128, (64, 128), dtype=torch.int8))
        self.register_buffer("s", torch.rand(shape) / 100 + 0.001)
        self.register_buffer("z", torch.randint(-5, 5, shape, dtype=torch.int8))

    def forward(self, x):
        return nn.functional.linear(x, primitives.dequantize_affine(
            self.q, self.block, self.s, self.z, torch.int8, -128, 127, output_dtype=x.dtype))


@pytest.mark.parametrize("block", [(1, 32), (1, 128), (64, 128)])
@torch.no_grad()
def test_dequantize_affine(block):
    model, x = Affine(block), torch.randn(3, 128)
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-3)
    program = tv.compile(model, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-3)
    assert outcomes(model, x) == ["read packed by 1 product"]


def weights_only():
    """A quantizer of PT2E that annotates the weights of linear layers."""
    from torchao.quantization.pt2e.observer import PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantizer import (
        QuantizationAnnotation,
        QuantizationSpec,
        Quantizer,
    )

    spec = QuantizationSpec(
        dtype=torch.int8, observer_or_fake_quant_ctr=PerChannelMinMaxObserver, quant_min=-127,
        quant_max=127, qscheme=torch.per_channel_symmetric, ch_axis=0)

    class WeightsOnly(Quantizer):
        def annotate(self, model):
            for node in model.graph.find_nodes(op="call_function",
                                               target=torch.ops.aten.linear.default):
                node.meta["quantization_annotation"] = QuantizationAnnotation(
                    input_qspec_map={node.args[1]: spec}, _annotated=True)
            return model

        def validate(self, model):
            pass

    return WeightsOnly()


@torch.no_grad()
def test_pt2e():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    x = torch.randn(3, 128)
    exported = torch.export.export(network(torch.float32), (x,)).module()
    prepared = prepare_pt2e(exported, weights_only())
    prepared(x)
    model = convert_pt2e(copy.deepcopy(prepared))
    assert any("dequantize_per_channel" in str(node.target) for node in model.graph.nodes)
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    program = tv.compile(torch.export.export(model, (x,)), **OPTIONS)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    tactics = [layer["tactic"] for engine in tv.engines(program)
               for layer in engine.info()["layers"]]
    assert sum(name.startswith("matmul_quantised") for name in tactics) >= 2, tactics


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        x = (self.second(x) + x).relu()
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("fold", [True, False])
@torch.no_grad()
def test_pt2e_static(fold):
    """Activations of uint8 with zero points, weights of int8 by channel."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    torch.manual_seed(0)
    net, x = Residual().eval(), torch.randn(2, 3, 12, 12)
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(net, (x,), strict=True).module(), quantizer)
    for seed in range(3):
        prepared(torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
    model = convert_pt2e(prepared, fold_quantize=fold)
    eager = model(x)
    # A sum that lies on a half may be rounded to either side of it, and is a step off behind.
    limit = 0.01 * eager.abs().max()
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    assert (compiled(x) - eager).abs().max() <= limit
    program = tv.compile(torch.export.export(model, (x,)), **OPTIONS)
    assert (program(x) - eager).abs().max() <= limit
    told = outcomes(model, x)
    assert sum("multiplied as integers by 1 convolution" in outcome for outcome in told) == 4
    assert sum("multiplied as integers by 1 product" in outcome for outcome in told) == 2
    (engine,) = tv.engines(program)
    # The input is quantised, and no other tensor by a kernel of its own.
    names = [layer["tactic"] for layer in engine.info()["layers"]]
    assert sum(name.startswith("pointwise") for name in names) == 1, names


@torch.no_grad()
def test_pt2e_dynamic():
    """Scales of the activations are chosen at each call."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    net, x = network(torch.float32), torch.randn(5, 128)
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=True))
    prepared = prepare_pt2e(torch.export.export(net, (x,), strict=True).module(), quantizer)
    prepared(x)
    model = convert_pt2e(prepared)
    compiled = torch.compile(model, backend="vulkan", options=OPTIONS)
    program = tv.compile(torch.export.export(model, (x,)), **OPTIONS)
    for given in (x, torch.randn(5, 128) * 7 + 2):
        eager = model(given)
        limit = 0.01 * eager.abs().max()  # behind a value on a half, as above
        assert (compiled(given) - eager).abs().max() <= limit
        assert (program(given) - eager).abs().max() <= limit
    told = outcomes(model, x)
    assert sum("multiplied as integers by 1 product" in outcome for outcome in told) == 4
