"""tv.quantize's floating-point numbers of 8 and 4 bits: what is held, and what engines make of it.
"""

import copy

import numpy
import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._quantised.quantisation import QuantizedLinear
from torch_vulkan._quantised.small_floats import to_codes

from marks import turns

ml_dtypes = pytest.importorskip("ml_dtypes")

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}
FORMS = ["fp8_e4m3", "fp8_e5m2", "mxfp8", "mxfp4", "nvfp4"]
LEAST_DB = {"fp8_e4m3": 28, "fp8_e5m2": 22, "mxfp8": 24, "mxfp4": 13, "nvfp4": 16}


def network(*sizes, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(dtype).eval()


def held_bytes(module):
    return sum(t.numel() * t.element_size() for t in module.state_dict().values())


def snr_db(got, exact):
    return 10 * torch.log10(exact.double().square().sum() /
                            (got.double() - exact.double()).square().sum()).item()


def numbers(codes, dtype):
    return codes.numpy().view(getattr(ml_dtypes, dtype)).astype("float32")


@pytest.mark.parametrize("format", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_codes_are_the_nearest(format):
    """Half to even and saturated: what ml_dtypes rounds to within the range."""
    largest = float(ml_dtypes.finfo(getattr(ml_dtypes, format)).max)
    all_codes = numpy.arange(16 if format.startswith("float4") else 256, dtype="uint8")
    known = all_codes.view(getattr(ml_dtypes, format)).astype("float32")
    known = numpy.unique(known[numpy.isfinite(known)])
    halfway = (known[1:] + known[:-1]) / 2
    x = numpy.concatenate([known, halfway, numpy.nextafter(halfway, numpy.float32(1e9)),
                           numpy.random.default_rng(0).standard_normal(10000).astype("float32"),
                           [largest * 1.4, -largest * 3]]).astype("float32")
    wanted = x.clip(-largest, largest).astype(getattr(ml_dtypes, format)).view("uint8")
    numpy.testing.assert_array_equal(to_codes(torch.from_numpy(x), format).numpy(), wanted)


def elements(layer):
    """[rows, columns] of numbers, and of scales for each."""
    codes = layer.weight
    if layer.bits == 4:
        codes = torch.stack([codes & 15, codes >> 4], -1).flatten(1)
    values = numbers(codes.contiguous(), layer.format)
    scale = (numbers(layer.weight_scale, layer.scale_format) if layer.scale_format
             else layer.weight_scale.float().numpy())
    if layer.weight_tensor_scale is not None:
        scale = scale * layer.weight_tensor_scale.numpy()
    return values, scale.repeat(values.shape[1] // scale.shape[1], axis=1)


@pytest.mark.parametrize("weights", FORMS)
@torch.no_grad()
def test_no_element_could_be_nearer(weights):
    """Of the numbers that the scale allows, and the scale itself covers the group."""
    model = network(64, 48)
    layer = tv.quantize(model, weights)[0]
    values, scale = elements(layer)
    all_codes = numpy.arange(1 << layer.bits, dtype="uint8")
    known = all_codes.view(getattr(ml_dtypes, layer.format)).astype("float32")
    known = known[numpy.isfinite(known)]
    weight = model[0].weight.numpy()
    error = numpy.abs(values * scale - weight)
    best = numpy.abs(known[None, None] * scale[..., None] - weight[..., None]).min(-1)
    numpy.testing.assert_allclose(error, best, atol=1e-7)
    if layer.scale_format == "float8_e8m0fnu":  # OCP: the largest's exponent less the format's
        size = 32
        largest = numpy.abs(weight).reshape(48, -1, size).max(-1)
        wanted = 2.0 ** (numpy.floor(numpy.log2(largest)) - {8: 8, 4: 2}[layer.bits])
        numpy.testing.assert_array_equal(scale[:, ::size], wanted)
    else:  # it is met but for the rounding of the scale
        size = 64 // layer.weight_scale.shape[1]
        largest = numpy.abs(weight).reshape(48, -1, size).max(-1)
        top = numpy.abs(values * scale).reshape(48, -1, size).max(-1)
        numpy.testing.assert_allclose(top, largest, rtol=0.07)


@turns(2)
@pytest.mark.parametrize("weights", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_compiled_is_eager_and_near_the_floats(weights, dtype):
    model = network(128, 256, 384, dtype=dtype)
    quantised = tv.quantize(model, weights)
    x = torch.randn(3, 128).to(dtype)
    compiled = torch.compile(quantised, backend="vulkan", fullgraph=True, options=OPTIONS)
    eager = quantised(x)
    assert snr_db(eager, model(x)) > LEAST_DB[weights]
    torch.testing.assert_close(compiled(x), eager, rtol=2 * torch.finfo(dtype).eps,
                               atol=16 * torch.finfo(dtype).eps)


@turns(3, each=("dtype",))
@pytest.mark.parametrize("weights", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_device_holds_what_is_packed(weights, dtype):
    model = network(512, 1024, 256, dtype=dtype)
    made = tv.quantize(model, weights)
    x = torch.randn(2, 512).to(dtype)
    (engine,) = tv.engines(tv.compile(made, inputs=[x], **OPTIONS))
    memory = engine.info()["memory"]
    assert memory["weights"] == held_bytes(made)
    assert memory["weights_held"] <= 1.05 * held_bytes(made)
    tactics = {layer["tactic"] for layer in engine.info()["layers"]}
    assert any(name.startswith("matmul_quantised") for name in tactics), tactics
    report = tv.dry_run(made, [x], min_block_size=1)
    outcomes = [t["outcome"] for e in report.engines for t in e["quantised"]]
    assert outcomes == ["read packed by 1 product"] * 2


@turns(3)
@pytest.mark.parametrize("weights", FORMS)
@torch.no_grad()
def test_products_of_one_input_are_joined(weights):
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(256, size) for size in (256, 64, 128))

        def forward(self, x):
            q, k, v = (part(x) for part in self.parts)
            return q.sigmoid(), k.tanh(), v.relu()

    torch.manual_seed(0)
    model = Heads().eval()
    model.parts[1].weight *= 17  # so that factors differ
    made, x = tv.quantize(model, weights), torch.randn(2, 5, 256)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), made(x))
    (engine,) = tv.engines(program)
    products = [layer for layer in engine.info()["layers"] if "aten::addmm" in layer["ops"]
                and layer["tactic"].startswith("matmul_quantised")]
    assert products and all(layer["ops"].count("aten::addmm") >= 3 for layer in products), products
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held_bytes(made)


@pytest.mark.parametrize("weights", ["fp8_e4m3", "mxfp4", "nvfp4"])
@torch.no_grad()
def test_refit_save_and_load(tmp_path, weights):
    made, other = (tv.quantize(network(64, 96, 32, seed=s), weights) for s in (0, 1))
    x = torch.randn(3, 64)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), made(x))
    tv.refit(program, other.state_dict())
    torch.testing.assert_close(program(x), other(x))
    for name, form in (("net.pt2", "exported_program"), ("net.pt", "torchscript")):
        tv.save(program, tmp_path / name, output_format=form)
        torch.testing.assert_close(tv.load(tmp_path / name)(x), other(x))
    (engine,) = tv.engines(program)
    engine.save(tmp_path / "net.vke")
    (result,) = tv.Engine.load(tmp_path / "net.vke").run([x]).values()
    torch.testing.assert_close(result, other(x))
    script = torch.jit.trace(made, x)
    torch.testing.assert_close(script(x), made(x))


@turns(3)
@pytest.mark.parametrize("weights", FORMS)
@torch.no_grad()
def test_embeddings(weights):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(500, 256, padding_idx=0), nn.Linear(256, 128)).eval()
    made = tv.quantize(model, weights, embeddings=True)
    i = torch.tensor([[0, 1, 499], [7, 7, 3]])
    program = tv.compile(made, inputs=[i], **OPTIONS)
    torch.testing.assert_close(program(i), made(i), rtol=1e-5, atol=1e-5)
    (engine,) = tv.engines(program)
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held_bytes(made)
    codes = copy.deepcopy(made[0].weight)
    half = copy.deepcopy(made).half()
    assert half[0](i).dtype == torch.float16 and torch.equal(half[0].weight, codes)
    if made[0].weight_tensor_scale is not None:
        assert torch.equal(half[0].weight_tensor_scale, made[0].weight_tensor_scale)


@torch.no_grad()
def test_zeros_and_tiny_weights():
    model = network(64, 16, dtype=torch.float16)
    model[0].weight.zero_()
    model[0].weight[1] = 6e-8
    for weights in FORMS:
        quantised, x = tv.quantize(model, weights), torch.randn(2, 64).half()
        assert torch.isfinite(quantised(x)).all()
        assert torch.equal(quantised(x)[:, 0], model(x)[:, 0])


@pytest.mark.parametrize(("arguments", "message"), [
    ({"weights": "fp8"}, "'fp8'.*want one of.*fp8_e4m3"),
    ({"weights": "mxfp4", "group_size": 16}, "groups of 'mxfp4' have 32"),
    ({"weights": "nvfp4", "group_size": 32}, "groups of 'nvfp4' have 16"),
    ({"weights": "fp8_e4m3", "symmetric": False}, "no zero points"),
    ({"weights": "mxfp4"}, r"'0\.weight' has rows of 48 elements, which groups of\s+32"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tv.quantize(network(48, 32), **arguments)


@pytest.mark.parametrize(("weights", "name", "value", "message"), [
    ("mxfp4", "weight_scale", 255, "nan at"), ("nvfp4", "weight_scale", 0x7F, "nan at"),
    ("nvfp4", "weight_tensor_scale", float("nan"), "nan at"),
    ("fp8_e4m3", "weight_scale", float("inf"), "inf at")])
def test_bad_scales(weights, name, value, message):
    made = tv.quantize(network(64, 32), weights)
    state = copy.deepcopy(made.state_dict())
    state[f"0.{name}"].view(-1)[0] = value
    with pytest.raises(ValueError, match=rf"0\.{name}': 1 of .*{message}"):
        made.load_state_dict(state)
    getattr(made[0], name).view(-1)[0] = value
    with pytest.raises(ValueError, match=rf"{name}': 1 of .*{message}"):
        tv.compile(made, inputs=[torch.randn(2, 64)])


def test_groups_of_a_row():
    made = tv.quantize(network(64, 32), "fp8_e4m3", group_size=16)[0]
    assert isinstance(made, QuantizedLinear) and made.weight_scale.shape == (32, 4)
    assert "weights=fp8_e4m3, group_size=16" in repr(made)
