"""SmoothQuant and bias correction: what calibrated layers compute, and what is gained."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_vulkan as tv

from workloads.small_networks import Block

STRICT = {"min_block_size": 1, "require_full_compilation": True,
          "pass_through_build_failures": True, "optimization_level": 0}
BOTH = {"smooth_quant": True, "bias_correction": True}


def options(calibration, precisions=frozenset({torch.float32, torch.int8})):
    return {**STRICT, "calibration": calibration, "enabled_precisions": {*precisions}}


def compiled(model, calibration, **given):
    torch._dynamo.reset()
    return torch.compile(model, backend="vulkan", options=options(calibration, **given))


def decibels(got, want):
    return 10 * torch.log10((want ** 2).sum() / ((got - want) ** 2).sum()).item()


# --- layers ---

def steps(x, scale, least=-128):
    return (x / scale).round().clamp(least, 127) * scale


def by_channels(weight):
    most = weight.flatten(1).abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny * 127)
    return steps(weight, (most / 127).view(-1, *[1] * (weight.dim() - 1)), -127)


def factors_of(largest, weights, alpha):
    """SmoothQuant's, of matrices [out, in] that read one input."""
    most = torch.stack([w.abs().amax(0) for w in weights]).amax(0).clamp(min=1e-30)
    found = (largest ** alpha * most ** (alpha - 1)).clamp(2.0 ** -40, 2.0 ** 40)
    return torch.where(largest > 0, found, 1.0)


def smoothed(x, weight, largest, factors):
    """x and the weight as they are multiplied."""
    scale = (largest / factors).max() / 127
    return steps(x / factors, scale), by_channels(weight * factors)


def check(got, want, model_gives):
    """Equal, but for values that lie on a half and are a step away."""
    assert decibels(got, want) > 55 and decibels(got, want) > decibels(got, model_gives) + 10
    near = torch.isclose(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
    assert near.float().mean() > 0.9


def with_outliers(*shape):
    """Values of which one channel in ten is far larger, not around zero, and one is never seen."""
    x = torch.randn(shape) + torch.linspace(-1, 2, shape[-1])
    x[..., ::10] *= 30
    x[..., 5] = 0
    return x


@pytest.mark.parametrize("alpha", [0.5, 0.75, 0.0, 1.0])
@torch.no_grad()
def test_smoothed_layers(alpha):
    torch.manual_seed(0)
    model, x = nn.Linear(37, 29).eval(), with_outliers(16, 37)
    model.weight[0] = 0
    model.weight[:, 3] = 0
    calibration = tv.calibrate(model, [x * 0.9], smooth_quant=alpha)
    assert calibration.smooth_quant == alpha
    largest = torch.tensor(calibration.channel_amax["input"])
    torch.testing.assert_close(largest, (x * 0.9).abs().amax(0))
    factors = factors_of(largest, [model.weight], alpha)
    want = functional.linear(*smoothed(x, model.weight, largest, factors), model.bias)
    check(compiled(model, calibration)(x), want, model(x))


@torch.no_grad()
def test_readers_of_one_input_share_their_factors():
    class Siblings(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(40, 16, bias=False), nn.Linear(40, 24)
            self.c = nn.Parameter(torch.randn(40, 8))

        def forward(self, x):
            return torch.cat([self.a(x), self.b(x), x @ self.c], -1)

    torch.manual_seed(0)
    model, x = Siblings().eval(), with_outliers(3, 5, 40)
    model.b.weight *= 4
    calibration = tv.calibrate(model, [x], smooth_quant=True)
    weights = [model.a.weight, model.b.weight, model.c.T]
    largest = x.abs().amax((0, 1))
    factors = factors_of(largest, weights, 0.5)
    parts = [functional.linear(*smoothed(x, w, largest, factors)) for w in weights]
    parts[1] += model.b.bias
    check(compiled(model, calibration)(x), torch.cat(parts, -1), model(x))


@torch.no_grad()
def test_more_channels_than_a_kernel_holds():
    torch.manual_seed(0)
    model, x = nn.Linear(2100, 8, bias=False).eval(), with_outliers(4, 2100)
    calibration = tv.calibrate(model, [x], **BOTH)
    got = compiled(model, calibration)(x)
    assert decibels(got, model(x)) > decibels(
        compiled(model, tv.calibrate(model, [x], "minmax"))(x), model(x)) + 3


class Matrix(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.randn(37, 29))

    def forward(self, x):
        return self.function(x, self.weight)


LAYERS = {
    "linear": (lambda: nn.Linear(37, 29), (5, 37)),
    "linear without bias": (lambda: nn.Linear(37, 29, bias=False), (2, 3, 5, 37)),
    "mm": (lambda: Matrix(torch.mm), (5, 37)),
    "matmul": (lambda: Matrix(torch.matmul), (2, 5, 37)),
    "addmm": (lambda: Matrix(lambda x, w: torch.addmm(x[:, :1], x, w)), (5, 37)),
    "convolution": (lambda: nn.Conv2d(7, 11, 3, stride=2), (2, 7, 13, 11)),
    "groups": (lambda: nn.Conv2d(12, 8, 3, dilation=2, groups=4), (1, 12, 11, 11)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 5, groups=8, bias=False), (2, 8, 9, 7)),
    "1-D": (lambda: nn.Conv1d(5, 6, 3), (3, 5, 17)),
}


def rows_of(model):
    """The weight with output channels first."""
    return model.weight.T if isinstance(model, Matrix) else model.weight


def lost(weight, means, model):
    """What a mean result loses where the weight is rounded."""
    rest = (weight - by_channels(weight)).flatten(2) if weight.dim() > 2 else weight.unsqueeze(
        -1) - by_channels(weight).unsqueeze(-1)
    groups = getattr(model, "groups", 1)
    each = means.view(groups, 1, -1, 1)
    return (rest.unflatten(0, (groups, -1)) * each).sum((2, 3)).flatten()


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_corrected_layers(name):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    model = make().eval()
    x = torch.randn(shape) + 3
    plain = tv.calibrate(model, [x], "minmax")
    calibration = tv.calibrate(model, [x], "minmax", bias_correction=True)
    assert calibration.scales == plain.scales
    convolves = x.dim() - 1 == model.weight.dim() - 1 and not isinstance(model, (nn.Linear, Matrix))
    dim = 1 if convolves else x.dim() - 1
    (means,) = calibration.channel_means.values()
    torch.testing.assert_close(torch.tensor(means), x.mean([d for d in range(x.dim()) if d != dim]))
    added = lost(rows_of(model), torch.tensor(means), model)
    if convolves:
        added = added.view(-1, *[1] * (x.dim() - 2))
    got, without = compiled(model, calibration)(x), compiled(model, plain)(x)
    torch.testing.assert_close(got, without + added, rtol=1e-5, atol=2e-5)
    assert added.abs().max() > 1e-3
    # The mean error of each channel.
    others = [d for d in range(got.dim()) if d != (1 if convolves else got.dim() - 1)]
    before, after = ((y - model(x)).mean(others).abs().mean() for y in (without, got))
    assert after < before


@torch.no_grad()
def test_correction_of_a_smoothed_layer():
    torch.manual_seed(0)
    model, x = nn.Linear(37, 29).eval(), with_outliers(64, 37) + 2
    calibration = tv.calibrate(model, [x], **BOTH)
    largest = x.abs().amax(0)
    factors = factors_of(largest, [model.weight], 0.5)
    a, w = smoothed(x, model.weight, largest, factors)
    want = functional.linear(a, w, model.bias) + (
        model.weight * factors - w) @ (x.mean(0) / factors)
    check(compiled(model, calibration)(x), want, model(x))


# --- networks ---

def network():
    """Trained for a moment; then channels of each norm are made large, and the weights that read
    them small, which changes nothing but what int8 makes of it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), Block(32), Block(32), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        x = torch.randn(32, 6, 12)
        optimizer.zero_grad()
        functional.mse_loss(model(x), x.cumsum(1)[..., :4].tanh()).backward()
        optimizer.step()
    with torch.no_grad():
        for block in model[1:3]:
            for norm, reader in zip(block.norms, (block.qkv, block.up), strict=True):
                factors = torch.ones(32)
                factors[3::11] = 40
                norm.weight *= factors
                norm.bias *= factors
                reader.weight /= factors
    return model.eval()


@pytest.fixture(scope="module")
def trained():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are too small for more
    try:
        return network()
    finally:
        torch.set_num_threads(threads)


def data(count=4):
    torch.manual_seed(1)
    return [torch.randn(16, 6, 12) for _ in range(count)]


@torch.no_grad()
def test_outliers(trained):
    x = torch.randn(32, 6, 12, generator=torch.Generator().manual_seed(5))
    want = trained(x)
    plain, smooth, both = (decibels(compiled(trained, c)(x), want) for c in (
        tv.calibrate(trained, data(), "minmax"),
        tv.calibrate(trained, data(), "minmax", smooth_quant=True),
        tv.calibrate(trained, data(), "minmax", **BOTH)))
    assert smooth > plain + 6 and both > plain + 6
    assert smooth > 25


@torch.no_grad()
def test_every_product_is_one_of_integers(trained):
    x = data()[0]
    report = tv.dry_run(trained, [x], **options(tv.calibrate(trained, [x], **BOTH)))
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert len(outcomes) == 20 and all("multiplied as integers by 1 product" in f for f in outcomes)


@torch.no_grad()
def test_beside_float16(trained):
    x = data()[0]
    want = trained(x)
    precisions = {torch.float16, torch.int8}
    plain, both = (decibels(compiled(trained, c, precisions=precisions)(x), want) for c in (
        tv.calibrate(trained, data(), "minmax"), tv.calibrate(trained, data(), **BOTH)))
    program = tv.compile(trained, [x], **options(tv.calibrate(trained, data(), **BOTH), precisions))
    if tv.devices()[0].type != "cpu" and not any(
            "integer" in layer["tactic"] for engine in tv.engines(program)
            for layer in engine.info()["layers"]):
        pytest.skip("this device multiplies 16 bits faster, so no layer is in integers")
    assert both > plain + 5


@torch.no_grad()
def test_ahead_of_time(trained, tmp_path):
    """Saved, loaded, refitted; factors and corrections are those of the new weights."""
    x = data()[0]
    calibration = tv.calibrate(trained, data(), **BOTH)
    want = compiled(trained, calibration)(x)
    program = tv.compile(trained, [x], **options(calibration))
    assert torch.equal(program(x), want)
    tv.save(program, tmp_path / "net.pt2")
    loaded = tv.load(tmp_path / "net.pt2")
    assert torch.equal(loaded(x), want)
    other = copy.deepcopy(trained)
    other[3].weight *= 1.5
    other[1].qkv.weight[:, ::5] *= 4
    with pytest.warns(UserWarning, match="ranges of this program's int8 activations"):
        tv.refit(loaded, other)
    again = compiled(other, calibration)(x)
    assert torch.equal(loaded(x), again) and not torch.equal(again, want)
    plain = compiled(other, tv.calibrate(trained, data(), "minmax"))(x)
    assert decibels(again, other(x)) > decibels(plain, other(x)) + 6


@torch.no_grad()
def test_another_smoothing_is_another_engine():
    """Of those that the cache holds."""
    torch.manual_seed(0)
    model, x = nn.Linear(37, 29).eval(), with_outliers(16, 37)
    found = [compiled(model, tv.calibrate(model, [x], "minmax", **given))(x)
             for given in ({}, {"smooth_quant": True}, {"smooth_quant": 0.25}, BOTH,
                           {"bias_correction": True}, {})]
    for i, one in enumerate(found[:-1]):
        assert not any(torch.equal(one, other) for other in found[i + 1:-1])
    assert torch.equal(found[0], found[-1])


# --- files ---

@torch.no_grad()
def test_a_cache_has_everything(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.Linear(8, 5)).eval()
    batches = [torch.randn(2, 4, 10) for _ in range(3)]
    path = tmp_path / "net.cache"
    made = tv.calibrate(model, batches, "minmax", path, **BOTH)
    assert {*made.channel_amax} == {"1.input"} and {*made.channel_means} == {"0.input", "1.input"}
    assert tv.Calibration.load(path) == made
    assert tv.calibrate(model, None, "minmax", path, **BOTH) == made
    plain = tv.calibrate(model, batches, "minmax")
    assert made.scales == plain.scales
    text = path.read_text()
    assert text.startswith(plain.to_text())
    # As other readers take lines: a name, and 8 digits or 0.
    for line in text.splitlines()[1:]:
        name, _, bits = line.rpartition(": ")
        assert name and (bits == "0" or (len(bits) == 8 and int(bits, 16)))
    made.save(tmp_path / "again.cache")
    assert (tmp_path / "again.cache").read_text() == text
    x = batches[0]
    assert torch.equal(compiled(model, path)(x), compiled(model, made)(x))


@pytest.mark.parametrize("given", [{}, {"smooth_quant": 0.25, "bias_correction": True},
                                   {"smooth_quant": True}])
def test_a_cache_with_other_options(tmp_path, given):
    model, path = nn.Linear(8, 4).eval(), tmp_path / "net.cache"
    tv.calibrate(model, [torch.randn(2, 8)], "minmax", path, **BOTH)
    with pytest.raises(ValueError, match=r"has smooth_quant=0.5, bias_correction=True, want .*"
                                         "remove it"):
        tv.calibrate(model, None, "minmax", path, **given)


BEGIN = "TRT-101401-MinMaxCalibration\ninput: 3c008912\n"


@pytest.mark.parametrize("lines, message", [
    ("#torch_vulkan smooth_quant: 40000000\n", "smooth_quant is 2.0+, want 0 to 1"),
    ("#torch_vulkan largest 3f800000 input: 0\n", "the line '#torch_vulkan smooth_quant' is mis"),
    ("#torch_vulkan means 3f8000 input: 0\n", "got '3f8000', want 8 hexadecimal digits for each"),
    ("#torch_vulkan means 3f80000g input: 0\n", "want 8 hexadecimal digits for each"),
    ("#torch_vulkan means  input: 0\n", "'input' want to be finite"),
    ("#torch_vulkan means 7fc00000 input: 0\n", "'input' want to be finite$"),
    ("#torch_vulkan smooth_quant: 3f000000\n#torch_vulkan largest bf800000 input: 0\n",
     "'input' want to be finite, from 0 up"),
    ("#torch_vulkan turned 3f800000 input: 0\n", "which another version wrote"),
])
def test_damaged_lines(tmp_path, lines, message):
    path = tmp_path / "bad.cache"
    path.write_text(BEGIN + lines)
    with pytest.raises(ValueError, match=message):
        tv.Calibration.load(path)


@torch.no_grad()
def test_another_number_of_channels():
    model, x = nn.Linear(8, 4).eval(), torch.randn(2, 8)
    found = tv.calibrate(nn.Linear(9, 4).eval(), [torch.randn(2, 9)], **BOTH)
    with pytest.raises(ValueError, match="'input' has 8 channels, the calibration 9"):
        compiled(model, found)(x)


def test_an_interrupted_calibration_goes_on(tmp_path):
    torch.manual_seed(0)
    model, path = nn.Linear(8, 4).eval(), tmp_path / "net.cache"
    batches = [torch.randn(4, 8) for _ in range(5)]

    def interrupted():
        yield from batches[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tv.calibrate(model, interrupted(), "minmax", path, **BOTH)
    with pytest.raises(ValueError, match="or of other options"):
        tv.calibrate(model, batches, "minmax", path)
    again = tv.calibrate(model, batches, "minmax", path, **BOTH)
    assert again == tv.calibrate(model, batches, "minmax", **BOTH)


@pytest.mark.parametrize("given", [{"smooth_quant": alpha} for alpha in (
    -0.1, 1.5, float("nan"), float("inf"), "0.5", None)] + [{"bias_correction": 1}])
def test_bad_options(given):
    (name,) = given
    with pytest.raises(ValueError, match=f"tv.calibrate: {name}="):
        tv.calibrate(nn.Linear(8, 4).eval(), [torch.randn(2, 8)], **given)


@torch.no_grad()
def test_nothing_warns_of_the_lines_of_channels():
    model, x = nn.Linear(8, 4).eval(), torch.randn(2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(model, tv.calibrate(model, [x], **BOTH))(x)
