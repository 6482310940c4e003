"""tv.quantize: what it returns, what it refuses, and what engines make of it."""

import copy
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 registers quantized_decomposed
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._quantised.quantisation import QuantizedEmbedding, QuantizedLinear

from marks import turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}


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


@turns(4)
@pytest.mark.parametrize(("arguments", "least_db"), [
    ({"weights": "int8"}, 40), ({"weights": "int8", "group_size": 32}, 42),
    ({"weights": "int8", "symmetric": False}, 40), ({"weights": "int4"}, 19),
    ({"weights": "int4", "symmetric": True}, 17), ({"weights": "int4", "group_size": 128}, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_compiled_is_eager_and_near_the_floats(arguments, least_db, dtype):
    model = network(128, 256, 384, dtype=dtype)
    quantised = tv.quantize(model, **arguments)
    x = torch.randn(3, 128).to(dtype)
    compiled = torch.compile(quantised, backend="vulkan", fullgraph=True, options=OPTIONS)
    eager = quantised(x)
    assert snr_db(eager, model(x)) > least_db
    torch.testing.assert_close(compiled(x), eager, rtol=2 * torch.finfo(dtype).eps,
                               atol=16 * torch.finfo(dtype).eps)
    assert all(record.engines for record in compilations.compilations())


@torch.no_grad()
def test_elements_are_the_nearest():
    """No element is further than half a step, and a row's largest is met."""
    model = network(64, 48)
    weight = model[0].weight
    for bits, symmetric in ((8, True), (8, False), (4, True), (4, False)):
        layer = tv.quantize(model, f"int{bits}", group_size=16, symmetric=symmetric)[0]
        held = layer(torch.eye(64)).t() - layer.bias[:, None]
        step = layer.weight_scale.repeat_interleave(16, 1)
        assert ((held - weight).abs() <= step * 0.5001 + 1e-6).all(), (bits, symmetric)


@torch.no_grad()
def test_zeros_and_tiny_weights():
    model = network(32, 16, dtype=torch.float16)
    model[0].weight.zero_()
    model[0].weight[1] = 6e-8
    for weights in ("int8", "int4"):
        quantised = tv.quantize(model, weights)
        x = torch.randn(2, 32).half()
        assert torch.isfinite(quantised(x)).all()
        assert torch.equal(quantised(x)[:, 0], model(x)[:, 0])


def test_a_copy_or_in_place():
    model = network(64, 32, 32)
    before = copy.deepcopy(model.state_dict())
    made = tv.quantize(model)
    assert type(model[0]) is nn.Linear and isinstance(made[0], QuantizedLinear)
    assert not made.training and isinstance(made[1], nn.ReLU)
    shared = {t.data_ptr() for t in model.state_dict().values()}
    assert not shared & {t.data_ptr() for t in made.state_dict().values()}
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert tv.quantize(model, inplace=True) is model and isinstance(model[0], QuantizedLinear)
    assert model[0].weight.dtype == torch.int8
    assert isinstance(tv.quantize(nn.Linear(32, 8)), QuantizedLinear)


def test_what_stays_floating_point():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 50, bias=False)
            self.head.weight = self.embed.weight
            self.same = self.mlp = nn.Linear(32, 32)
            self.attention = nn.MultiheadAttention(32, 2)

        def forward(self, i):
            return self.head(self.same(self.mlp(self.embed(i))))

    model = Tied().eval()
    made = tv.quantize(model, "int4")
    assert made.embed.weight is not model.embed.weight, "the embedding still needs it"
    assert made.same is made.mlp and isinstance(made.head, QuantizedLinear)
    assert type(made.attention.out_proj) is type(model.attention.out_proj)
    kept = tv.quantize(model, "int4", exclude=["^head$"])
    assert type(kept.head) is nn.Linear and kept.head.weight is kept.embed.weight
    i = torch.arange(7)
    with torch.no_grad():
        compiled = torch.compile(made, backend="vulkan", options=OPTIONS)
        torch.testing.assert_close(compiled(i), made(i))


@pytest.mark.parametrize("weights", ["int8", "int4"])
@torch.no_grad()
def test_embeddings(weights):
    torch.manual_seed(0)
    # Large beside what devices round a tensor's memory up to.
    model = nn.Sequential(nn.Embedding(500, 256, padding_idx=0), nn.Linear(256, 128)).eval()
    made = tv.quantize(model, weights, embeddings=True)
    i = torch.tensor([[0, 1, 499], [7, 7, 3]])
    assert isinstance(made[0], QuantizedEmbedding)
    assert snr_db(made[0](i), model[0](i)) > (40 if weights == "int8" else 18)
    assert made.half()[0](i).dtype == torch.float16
    program = tv.compile(made, inputs=[i], **OPTIONS)
    torch.testing.assert_close(program(i), made(i), rtol=2e-3, atol=2e-3)
    (engine,) = tv.engines(program)
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held_bytes(made)
    once = nn.Embedding(50, 64, max_norm=1.0)
    assert type(tv.quantize(nn.Sequential(once, nn.Linear(64, 8)), embeddings=True)[0]) is (
        nn.Embedding)


@torch.no_grad()
def test_with_other_settings():
    """float16 sums of float32 models, sizes of a range with their own kernels, TorchScript."""
    made = tv.quantize(network(128, 96, 64), "int4")
    x = torch.randn(3, 128)
    half = tv.compile(made, inputs=[x], enabled_precisions={torch.float32, torch.float16},
                      **OPTIONS)
    torch.testing.assert_close(half(x), made(x), rtol=2e-3, atol=2e-3)
    tactics = [layer["tactic"] for engine in tv.engines(half)
               for layer in engine.info()["layers"]]
    assert any(name.startswith("matmul_quantised") for name in tactics), tactics
    sizes = tv.Input(min_shape=(1, 128), opt_shape=(16, 128), max_shape=(300, 128))
    ranged = tv.compile(made, inputs=[sizes], **{**OPTIONS, "optimization_level": 3})
    for rows in (1, 2, 7, 33, 300):
        x = torch.randn(rows, 128)
        torch.testing.assert_close(ranged(x), made(x), rtol=1e-4, atol=1e-5)
    x = torch.randn(3, 128)
    script = tv.compile(torch.jit.trace(made, x), inputs=[x], min_block_size=1)
    torch.testing.assert_close(script(x), made(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_script_of_it_runs_without_python_parts(tmp_path):
    """What is left outside of engines calls an operator of libtorch_vulkan.so."""
    made, x = tv.quantize(network(128, 96, 64), "int4"), torch.randn(3, 128)
    torch.jit.save(torch.jit.trace(made, x), tmp_path / "net.pt")
    torch.save((x, made(x)), tmp_path / "pair.pt")
    library = Path(tv.__file__).parent / "lib" / "libtorch_vulkan.so"
    subprocess.run([sys.executable, "-c", f"""
import sys, torch
torch.ops.load_library({str(library)!r})
x, want = torch.load("pair.pt")
torch.testing.assert_close(torch.jit.load("net.pt")(x), want, rtol=0, atol=0)
assert "torch_vulkan" not in sys.modules
"""], cwd=tmp_path, check=True)


@torch.no_grad()
def test_an_encoder_layer_leaves_its_fast_path():
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).eval()
    made, x = tv.quantize(layer), torch.randn(2, 5, 32)
    assert snr_db(made(x), layer(x)) > 40


@pytest.mark.parametrize(("arguments", "message"), [
    ({"weights": "int3"}, "int3.*want one of"),
    ({"weights": "int4", "group_size": 0}, "group_size=0"),
    ({"weights": "int8", "group_size": 7}, "group_size=7"),
    ({"weights": "int4", "group_size": 48}, r"'0\.weight' has rows of 64.*48 do not divide"),
    ({"symmetric": 1.5}, "symmetric=1.5"),
    ({"exclude": "head"}, r"want a list"),
    ({"exclude": ["("]}, "exclude="),
    ({"exclude": ["."]}, "no nn.Linear to quantise but excluded"),
])
def test_bad_arguments(arguments, message):
    model = network(64, 32)
    with pytest.raises(ValueError, match=message):
        tv.quantize(model, inplace=True, **arguments)
    assert type(model[0]) is nn.Linear


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_weights(bad):
    model = network(64, 32, 16)
    with torch.no_grad():
        model[2].weight[3, 5] = bad
    with pytest.raises(ValueError, match=r"'2\.weight' holds infinities or NaN"):
        tv.quantize(model, inplace=True)
    assert type(model[0]) is nn.Linear, "nothing changes before everything is known to be right"
    with pytest.raises(ValueError, match="'0.weight' is torch.float32 on meta"):
        tv.quantize(network(64, 32).to("meta"))
    with pytest.raises(ValueError, match="want a torch.nn.Module"):
        tv.quantize(torch.relu)
    with pytest.raises(ValueError, match="ReLU has no nn.Linear"):
        tv.quantize(nn.ReLU())


@turns(3, each=("dtype",))
@pytest.mark.parametrize("arguments", [{"weights": "int8"}, {"weights": "int4"},
                                       {"weights": "int4", "group_size": 128, "symmetric": True}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_device_holds_what_is_packed(arguments, dtype):
    """Nothing is unpacked for good: what the device holds is at most 1.05 of the packed bytes."""
    model = network(512, 1024, 256, dtype=dtype)
    made = tv.quantize(model, **arguments)
    x = torch.randn(2, 512).to(dtype)
    (engine,) = tv.engines(tv.compile(made, inputs=[x], **OPTIONS))
    memory = engine.info()["memory"]
    assert memory["weights"] == held_bytes(made)
    assert memory["weights_held"] <= 1.05 * held_bytes(made)
    tactics = {layer["tactic"] for layer in engine.info()["layers"]}
    assert any(name.startswith("matmul_quantised") for name in tactics), tactics


@turns(2)
@pytest.mark.parametrize("weights", ["int8", "int4"])
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
    made, other = (tv.quantize(Heads().eval(), weights) for _ in range(2))
    x = torch.randn(2, 5, 256)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), made(x))
    (engine,) = tv.engines(program)
    products = [layer for layer in engine.info()["layers"] if "aten::addmm" in layer["ops"]
                and layer["tactic"].startswith("matmul_quantised")]
    assert {layer["name"] for layer in products} and all(
        layer["ops"].count("aten::addmm") >= 3 for layer in products), products
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held_bytes(made)
    tv.refit(program, {name: value for name, value in other.state_dict().items() if "1." in name})
    made.parts[1].load_state_dict(other.parts[1].state_dict())
    torch.testing.assert_close(program(x), made(x))


@torch.no_grad()
def test_refit_save_and_load(tmp_path):
    made, other = (tv.quantize(network(64, 96, 32, seed=s), "int4") for s in (0, 1))
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
    with pytest.raises(ValueError, match="weight_scale"):
        tv.refit(program, {"0.weight_scale": torch.ones(96, 3)})


@pytest.mark.parametrize("weights", ["int8", "int4", "mxfp4", "nvfp4"])
@torch.no_grad()
def test_refit_takes_elements_and_scales_together(weights):
    made, other = (tv.quantize(network(64, 96, 32, seed=s), weights) for s in (0, 1))
    x, tensors = torch.randn(3, 64), other.state_dict()
    program = tv.compile(made, inputs=[x], **OPTIONS)
    for module in (program, torch.compile(made, backend="vulkan", options=OPTIONS)):
        before = module(x)
        for part in [name for name in tensors if name.startswith("0.weight")]:
            for given in ({part: tensors[part]},
                          {name: value for name, value in tensors.items() if name != part}):
                with pytest.raises(ValueError, match="change together") as raised:
                    tv.refit(module, given)
                assert "'0.weight" in str(raised.value)
        assert torch.equal(module(x), before)
    tv.refit(program, {name: value for name, value in tensors.items() if name.startswith("0.")})
    made[0].load_state_dict(other[0].state_dict())
    torch.testing.assert_close(program(x), made(x))
    tv.refit(program, {"0.bias": torch.zeros(96)})  # it is no part of the weight
    made[0].bias.zero_()
    torch.testing.assert_close(program(x), made(x))


@pytest.mark.parametrize("weights, name", [("int8", "0.weight_scale"), ("nvfp4", "2.weight_scale"),
                                           ("nvfp4", "0.weight_tensor_scale")])
@torch.no_grad()
def test_refit_refuses_bad_scales(weights, name):
    made, other = (tv.quantize(network(64, 96, 32, seed=s), weights) for s in (0, 1))
    x = torch.randn(3, 64)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    before = {key: tensor.clone() for key, tensor in made.state_dict().items()}
    result = program(x)
    codes = before[name].dtype == torch.uint8
    for bad in (0x7f,) if codes else (float("nan"), float("inf")):
        given = copy.deepcopy(other.state_dict())
        given[name].flatten()[-1] = bad
        for module in (program, made, torch.compile(made, backend="vulkan", options=OPTIONS)):
            with pytest.raises(ValueError, match=f"scale '{name}': 1 of .* are not finite"):
                tv.refit(module, given)
    assert all(torch.equal(before[key], tensor) for key, tensor in made.state_dict().items())
    assert torch.equal(program(x), result)
    tv.refit(program, other.state_dict())
    torch.testing.assert_close(program(x), other(x))


@torch.no_grad()
def test_a_changed_weight_is_seen():
    made, other = (tv.quantize(network(64, 32, seed=s)) for s in (0, 1))
    compiled = torch.compile(made, backend="vulkan", options=OPTIONS)
    x = torch.randn(3, 64)
    compiled(x)
    made.load_state_dict(other.state_dict())
    torch.testing.assert_close(compiled(x), other(x))


@torch.no_grad()
def test_engines_come_from_the_cache(tmp_path):
    options = {**OPTIONS, "engine_cache_dir": str(tmp_path), "optimization_level": 0}
    x, results = torch.randn(3, 64), []
    for seed in (0, 1):
        made = tv.quantize(network(64, 32, seed=seed), "int4")
        results.append((tv.compile(made, inputs=[x], **options)(x), made(x)))
    for got, wanted in results:
        torch.testing.assert_close(got, wanted)
    assert len(list(tmp_path.rglob("*.vke"))) <= 1, "weights are no part of the key"


def test_the_dry_run_says_what_becomes_of_each():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = tv.quantize(nn.Linear(64, 32))
            self.register_buffer("q", torch.ones(8, 32, dtype=torch.int8))
            self.register_buffer("s", torch.ones(8, 1))

        def forward(self, x):
            weight = torch.ops.torch_vulkan.dequantize(self.q, self.s, None, 8, x.dtype)
            return self.linear(x) + weight.cumsum(0)

    report = tv.dry_run(Mixed().eval(), [torch.randn(8, 64)], min_block_size=1)
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert sorted(outcomes) == [
        "computed once for each set of weights and held as float32[8, 32], for aten::cumsum",
        "read packed by 1 product"]
    assert "1 quantised tensor read packed by 1 product: linear" in str(report)
    assert "read packed by 1 product" in report.to_html()


@torch.no_grad()
def test_training_goes_through_to_what_is_trained():
    """The gradient of the input is that of eager; a bias can be trained on."""
    made = tv.quantize(network(64, 32)).train()
    x = torch.randn(3, 64)
    with torch.enable_grad():
        gradients = []
        for model in (made, torch.compile(made, backend="vulkan")):
            leaf = x.clone().requires_grad_()
            gradients.append(torch.autograd.grad(model(leaf).square().sum(),
                                                 [leaf, made[0].bias]))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float8_e8m0fnu, torch.float8_e4m3fn, torch.float8_e5m2])
def test_scales_of_8_bits_are_checked(dtype):
    from torch_vulkan._fx.quantised_scales import check_scale

    check_scale("s", torch.tensor([0.5, 2.0]).to(dtype))
    with pytest.raises(ValueError, match="'s': 1 of 2"):
        check_scale("s", torch.tensor([1.0, math.nan]).to(dtype))


class Activations(nn.Module):
    """A layer whose input has a scale and zero point in tensors, or as numbers."""

    def __init__(self, zero, weight_zero=3, tensors=True):
        super().__init__()
        torch.manual_seed(0)
        self.zero, self.tensors = zero, tensors
        self.register_buffer("scale", torch.tensor(0.1))
        self.register_buffer("zero_point", torch.tensor(zero))
        self.register_buffer("w", torch.randint(-127, 128, (24, 640), dtype=torch.int8))
        self.register_buffer("w_scale", torch.rand(24) / 100 + 0.001)
        self.register_buffer("w_zero", torch.full((24,), weight_zero))

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        if self.tensors:
            grid = self.scale, self.zero_point, 0, 255, torch.uint8
            q = ops.quantize_per_tensor.tensor(x, *grid)
            x = ops.dequantize_per_tensor.tensor(q, *grid)
        else:
            grid = 0.1, self.zero, 0, 255, torch.uint8
            q = ops.quantize_per_tensor(x, *grid)
            x = ops.dequantize_per_tensor(q, *grid)
        w = ops.dequantize_per_channel(self.w, self.w_scale, self.w_zero, 0, -128, 127, torch.int8)
        return nn.functional.linear(x, w), q


@pytest.mark.parametrize("zero", [300, -5, 10**7])
@torch.no_grad()
def test_zero_points_beyond_the_grid(zero):
    """PyTorch's reference clamps behind the zero point and subtracts it as it is."""
    torch._dynamo.reset()
    model, x = Activations(zero, tensors=False), torch.randn(7, 640) * 10
    (want, want_q), (got, got_q) = model(x), torch.compile(model, backend="vulkan",
                                                           options=OPTIONS)(x)
    assert torch.equal(got_q, want_q)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5 * want.abs().max().item())


@pytest.mark.parametrize("model, message", [
    (Activations(300), r"'zero_point': 1 of 1 are not of torch.uint8, from 0 to 255.* 300 at \[\]"),
    (Activations(3, 10**6), r"'w_zero': 24 of 24 are not of torch.int8, from -128 to 127.*1000000"),
    (Activations(3, -129), r"'w_zero': 24 of 24 are not of torch.int8")])
def test_zero_points_that_sums_of_integers_do_not_hold(model, message):
    x = torch.randn(7, 640)
    with pytest.raises(ValueError, match=message):
        tv.compile(model, inputs=[x])
    with pytest.raises(Exception, match=message):
        torch.compile(model, backend="vulkan")(x)
    good = Activations(3)
    with pytest.raises(ValueError, match=message):
        tv.refit(tv.compile(good, inputs=[x], **OPTIONS), model.state_dict())


def test_a_scale_in_the_graph_is_named_by_its_layer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(Step())

        def forward(self, x):
            return self.inner(x)

    class Step(nn.Module):
        def forward(self, x):
            return torch.ops.quantized_decomposed.quantize_per_tensor(
                x, 0.0, 0, -128, 127, torch.int8)

    with pytest.raises(ValueError, match=r"scale 'of \w+ in inner.0': 1 of 1 are not positive"):
        tv.compile(Net(), inputs=[torch.randn(2)])
