"""Networks of floats in int8, by a calibration: what is computed, and what is left alone."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_vulkan as tv

from marks import turns
from workloads.trained_networks import Task, Transformer, trained

STRICT = {"min_block_size": 1, "require_full_compilation": True,
          "pass_through_build_failures": True, "optimization_level": 0}
INT8 = {torch.float32, torch.int8}


def options(calibration, precisions=INT8, **others):
    return {**STRICT, "calibration": calibration, "enabled_precisions": precisions, **others}


def compiled(model, *args, **given):
    torch._dynamo.reset()
    return torch.compile(model, backend="vulkan", options=options(*args, **given))


def steps(x, scale, least=-128):
    return (x / scale).round().clamp(least, 127) * scale


class Quantised(nn.Module):
    """What a calibrated layer is to compute, in PyTorch."""

    def __init__(self, layer, scale):
        super().__init__()
        self.layer, self.scale = copy.deepcopy(layer), scale
        weight = layer.weight.detach()
        most = weight.flatten(1).abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny * 127)
        self.layer.weight.data = steps(weight, (most / 127).view(-1, *[1] * (weight.dim() - 1)),
                                       -127)

    def forward(self, x):
        return self.layer(steps(x, self.scale))


LAYERS = {
    "linear": (lambda: nn.Linear(37, 29), (5, 37)),
    "linear without bias": (lambda: nn.Linear(37, 29, bias=False), (2, 3, 5, 37)),
    "convolution": (lambda: nn.Conv2d(7, 11, 3, stride=2, padding=1), (2, 7, 13, 11)),
    "groups": (lambda: nn.Conv2d(12, 8, 3, dilation=2, groups=4), (1, 12, 11, 11)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 5, padding=2, groups=8, bias=False), (2, 8, 9, 7)),
    "1-D": (lambda: nn.Conv1d(5, 6, 3, padding=2), (3, 5, 17)),
}


@turns(2)
@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_layers(name):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    model.weight[0] = 0  # a channel of zeros
    calibration = tv.calibrate(model, [x * 0.7], "minmax")  # some values are out of range
    (scale,) = calibration.scales.values()
    want = Quantised(model, scale)(x)
    got = compiled(model, calibration)(x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(got, model(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_what_a_bias_is_made_of_stays():
    """x is a factor and what is added as well."""
    class Squared(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.weight = nn.Parameter(torch.randn(16, 16))

        def forward(self, x):
            return torch.addmm(x, x, self.weight)

    model, x = Squared().eval(), torch.randn(16, 16) * 50
    calibration = tv.calibrate(model, [x], "minmax")
    (scale,) = calibration.scales.values()
    most = model.weight.abs().amax(0, keepdim=True)
    want = x + steps(x, scale) @ steps(model.weight, most / 127, -127)
    torch.testing.assert_close(compiled(model, calibration)(x), want, rtol=1e-5, atol=1e-3)


@torch.no_grad()
@pytest.mark.setting("calibration")
def test_another_calibration_is_another_engine():
    """Engines that the cache holds are of their scales."""
    torch.manual_seed(0)
    model, x = nn.Linear(37, 29).eval(), torch.randn(5, 37)
    for factor in (1.0, 2.0, 0.5):
        calibration = tv.calibrate(model, [x * factor], "minmax")
        (scale,) = calibration.scales.values()
        torch.testing.assert_close(compiled(model, calibration)(x), Quantised(model, scale)(x),
                                   rtol=1e-5, atol=1e-5)


# --- networks that are trained here ---

def gratings(count, seed):
    """Images of stripes in one of four directions, in noise."""
    torch.manual_seed(seed)
    label = torch.randint(4, (count,))
    angle = label * torch.pi / 4 + torch.randn(count) * 0.12
    grid = torch.linspace(-3, 3, 12)
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    along = torch.cos(angle)[:, None, None] * x + torch.sin(angle)[:, None, None] * y
    phase = torch.rand(count, 1, 1) * 6.28
    return (torch.sin(2 * along + phase) + torch.randn(count, 12, 12) * 0.6)[:, None], label


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.ReLU(), nn.Conv2d(24, 32, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))


def sequences(count, seed):
    """Which of 4 symbols is most frequent among those after the mark."""
    torch.manual_seed(seed)
    tokens = torch.randint(4, (count, 16))
    tokens[:, 0] = 4
    favourite = torch.randint(4, (count,))
    tokens[:, 1:5] = favourite[:, None]
    votes = functional.one_hot(tokens[:, 1:], 5).sum(1)[:, :4]
    return tokens, votes.argmax(1)


@pytest.fixture(scope="module")
def networks():
    return {"cnn": (trained(Task(cnn, gratings, 100)), gratings),
            "transformer": (trained(Task(lambda: Transformer(5, 4, 16, 32), sequences, 200)),
                            sequences)}


@torch.no_grad()
def test_every_product_is_one_of_integers(networks):
    model, data = networks["transformer"]
    x = data(8, 1)[0]
    calibration = tv.calibrate(model, [x], "minmax")
    report = tv.dry_run(model, [x], **options(calibration))
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    # Eight layers and the head, each with a weight; query, key and value have one input.
    assert len(outcomes) == 18 and all("multiplied as integers by 1 product" in f for f in outcomes)


# --- permission, exclusions ---

@torch.no_grad()
def test_without_permission_nothing_changes(networks):
    model, data = networks["cnn"]
    x = data(4, 1)[0]
    calibration = tv.calibrate(model, [x], "minmax")
    torch._dynamo.reset()
    floats = torch.compile(model, backend="vulkan", options=STRICT)(x)
    excluded = compiled(model, calibration, autocast_excluded_ops=("aten::convolution",
                                                                   "aten::linear", "aten::addmm"))
    assert torch.equal(excluded(x), floats)
    torch._dynamo.reset()
    with pytest.raises(ValueError, match="calibration needs int8 in enabled_precisions"):
        torch.compile(model, backend="vulkan", options={**STRICT, "calibration": calibration})(x)
    with pytest.raises(ValueError, match="needs calibration="):
        torch.compile(model, backend="vulkan",
                      options={**STRICT, "enabled_precisions": INT8})(x)


@torch.no_grad()
def test_excluded_nodes_stay_floats():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 8)).eval()
    x = torch.randn(6, 24)
    calibration = tv.calibrate(model, [x], "minmax")
    got = compiled(model, calibration, autocast_excluded_nodes=("^0$",))(x)
    want = Quantised(model[2], calibration.scales["2.input"])(model[1](model[0](x)))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_graph_too_small_for_an_engine(recwarn):
    """What is not quantised is said, and what to do."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(24, 24), nn.ReLU()).eval(), torch.randn(6, 24)
    calibration = tv.calibrate(model, [x], "minmax")
    for size, said in ((5, 1), (1, 0)):
        torch._dynamo.reset()
        recwarn.clear()
        got = torch.compile(model, backend="vulkan", options={
            "optimization_level": 0, "min_block_size": size, "enabled_precisions": {torch.int8},
            "calibration": calibration})(x)
        found = [str(w.message) for w in recwarn if "nothing is computed in int8" in str(w.message)]
        assert len(found) == said, found
        assert all("min_block_size = 5; min_block_size=1 builds it" in text for text in found)
        assert torch.equal(got, model(x)) == bool(said)


@torch.no_grad()
def test_what_the_model_quantised_stays_its_own():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16)).eval()
    model = tv.quantize(plain, "int8", exclude=["2"])
    x = torch.randn(5, 64)
    calibration = tv.calibrate(model, [x], "minmax")
    assert {*calibration.scales} == {"2.input"}
    want = Quantised(plain[2], calibration.scales["2.input"])(model[1](model[0](x)))
    # Where sums round otherwise, a value may be a step away.
    got = compiled(model, calibration)(x)
    assert (got - want).abs().max() <= calibration.scales["2.input"]


# --- names ---

@torch.no_grad()
def test_layers_without_a_scale_are_named(networks):
    model, data = networks["cnn"]
    x = data(4, 1)[0]
    calibration = tv.calibrate(model, [x], "minmax")
    some = {k: v for k, v in calibration.scales.items() if k != "3.input"} | {"other": 1.0}
    with pytest.warns(UserWarning, match=r"no scale for 3.input: .* \(4 of 5 products"):
        compiled(model, tv.Calibration(calibration.header, some))(x)
    with pytest.raises(ValueError, match="no scale of it is of this model: .*'0.input'.*'other'"):
        compiled(model, tv.Calibration(calibration.header, {"other": 1.0}))(x)


@turns(2, group="networks")
@torch.no_grad()
def test_ahead_of_time(networks, tmp_path):
    """The names are those of torch.compile; the engine is saved, loaded and refitted."""
    model, data = networks["transformer"]
    x = data(8, 1)[0]
    path = tmp_path / "net.cache"
    tv.calibrate(model, [x], "entropy", path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        want = compiled(model, path)(x)
        program = tv.compile(model, [x], **options(path))
    assert torch.equal(program(x), want)
    path.unlink()
    tv.save(program, tmp_path / "net.pt2")
    loaded = tv.load(tmp_path / "net.pt2")
    assert torch.equal(loaded(x), want)
    other = copy.deepcopy(model)
    other.head.weight *= 1.5
    with pytest.warns(UserWarning, match="ranges of this program's int8 activations"):
        tv.refit(loaded, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.refit(loaded, loaded.state_dict())
    again = tv.compile(other, [x], **options(tv.calibrate(model, [x], "entropy")))
    assert torch.equal(loaded(x), again(x)) and not torch.equal(loaded(x), want)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head = nn.Linear(12, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.layer(self.layer(x).tanh() * 5).relu())


@torch.no_grad()
def test_a_layer_that_is_called_twice_ahead_of_time():
    model, x = Shared().eval(), torch.randn(4, 12)
    calibration = tv.calibrate(model, [x], "minmax")
    assert len(calibration.scales) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = tv.compile(model, [x], **options(calibration))
    assert torch.equal(program(x), compiled(model, calibration)(x))
    first, second = (Quantised(model.layer, calibration.scales[name])
                     for name in ("layer.input", "layer.input.1"))
    want = Quantised(model.head, calibration.scales["head.input"])(
        second(first(x).tanh() * 5).relu())
    assert (program(x) - want).abs().max() < 0.1


@turns(2, group="networks")
@torch.no_grad()
def test_beside_float16(networks):
    model, data = networks["cnn"]
    x, label = data(500, 1)
    calibration = tv.calibrate(model, [x[:64]], "entropy")
    got = compiled(model, calibration, {torch.float32, torch.float16, torch.int8})(x)
    assert got.dtype == torch.float32
    agree = (got.argmax(1) == model(x).argmax(1)).float().mean()
    assert agree >= 0.98


@torch.no_grad()
def test_a_tuned_engine_is_right_whatever_it_chose(networks):
    model, data = networks["cnn"]
    x = data(64, 1)[0]
    calibration = tv.calibrate(model, [x], "minmax")
    got = compiled(model, calibration, optimization_level=1, tuning_seconds=2)(x)
    agree = (got.argmax(1) == model(x).argmax(1)).float().mean()
    assert agree >= 0.95


def test_where_gradients_are_wanted():
    model, x = nn.Linear(8, 8).eval(), torch.randn(2, 8)
    made = compiled(model, tv.calibrate(model, [x], "minmax"))
    with pytest.warns(UserWarning, match="nothing is computed in int8.*gradients are wanted"):
        made(x)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        made(x)


@torch.no_grad()
def test_a_constant_of_the_code():
    """Which exporting gives a name, and torch.compile another."""
    class Constant(nn.Linear):
        def forward(self, x):
            return super().forward(x) @ torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    model, x = Constant(2, 2).eval(), torch.randn(3, 2)
    calibration = tv.calibrate(model, [x], "minmax")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = tv.compile(model, inputs=[x], **options(calibration))(x)
    torch.testing.assert_close(got, compiled(model, calibration)(x))
