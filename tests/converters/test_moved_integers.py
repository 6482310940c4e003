"""Quantised tensors that are moved, joined, pooled or resized stay integers, with the bits of
PyTorch's own run of the graph."""

import pytest
import torch
from test_integer_products import RANGE, Called, channels, decomposed, floats, integers, pair
from torch import nn

import torch_vulkan as tv

from denormals import flushes_denormals
from marks import turns
from parity import OPTIONS, tensor

F = nn.functional
SCALE, ZERO = 0.021, 117


def quantised(x, scale=SCALE, zero=ZERO, dtype=torch.uint8):
    return decomposed.quantize_per_tensor(x, scale, zero, *RANGE[dtype], dtype)


class Model(Called):
    """A function of the module and its inputs, with weights of int8 whose scales are powers of two,
    so that PyTorch's sums of floats are exact."""

    def __init__(self, function, *shapes, axis=0):
        super().__init__(lambda *args: function(self, *args))
        self.axis = axis
        for i, shape in enumerate(shapes):
            self.register_buffer(f"w{i}", integers(*shape, dtype=torch.int8, seed=i) // 2)
            self.register_buffer(f"s{i}", 2.0 ** -(7 + torch.arange(shape[axis]) % 3))

    def weight(self, i):
        scales = getattr(self, f"s{i}")
        return channels(getattr(self, f"w{i}"), scales, torch.zeros(len(scales), dtype=torch.int64),
                        self.axis)


@torch.no_grad()
def ran(model, *args):
    """Launches of a model whose results are PyTorch's, to the bit, and what became of its tensors
    by the dry run."""
    module = model if isinstance(model, nn.Module) else Called(model)
    made = tv.compile(module, inputs=list(args), **OPTIONS)
    got, want = (r if isinstance(r, (tuple, list)) else [r] for r in (made(*args), module(*args)))
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype and torch.equal(one, other), (one != other).sum()
    layers = [layer for engine in tv.engines(made) for layer in engine.info()["layers"]]
    report = tv.dry_run(module, list(args), **OPTIONS)
    return layers, [t["outcome"] for engine in report.engines for t in engine["quantised"]]


def pointwise(layers):
    return [layer["ops"] for layer in layers if layer["tactic"].startswith("pointwise")]


MOVES = {
    "max_pool1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool3d": lambda x: F.max_pool3d(x[None], 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest 1d": lambda x: F.interpolate(x.flatten(2), scale_factor=2),
    "nearest-exact": lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest-exact"),
    "nearest-exact 1d": lambda x: F.interpolate(x.flatten(2), size=77, mode="nearest-exact"),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "reflect": lambda x: F.pad(x, (1, 2, 0, 1), "reflect"),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "flip": lambda x: x.flip(-1),
    "slice": lambda x: x[:, 1:6, ::2],
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "cat with itself": lambda x: torch.cat([x, x.flip(1)], 1),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("name", MOVES)
def test_moved_between_equal_scales(name, dtype):
    """Nothing dequantises or quantises."""
    zero = 117 if dtype == torch.uint8 else -7
    q = integers(2, 8, 12, 10, dtype=dtype)
    layers, outcomes = ran(lambda q: quantised(MOVES[name](floats(q, SCALE, zero)), zero=zero,
                                            dtype=dtype), q)
    assert not any("quantize" in op for layer in layers for op in layer["ops"]), layers
    assert len(outcomes) <= 1 and all(outcome.startswith("moved as integers by aten::") for outcome in outcomes)


@turns(2)
@pytest.mark.parametrize("name", [name for name in MOVES if name != "cat with itself"])
def test_moved_to_another_scale(name):
    """Each element is scaled anew in the launch that moves it, or beside a view of it."""
    q = integers(2, 8, 12, 10, dtype=torch.uint8)
    layers, outcomes = ran(lambda q: quantised(MOVES[name](floats(q, SCALE, ZERO)), 0.03, 100), q)
    assert len(layers) <= 2 and len(pointwise(layers)) <= 1
    if name in ("max_pool2d", "nearest", "nearest-exact", "pad", "flip"):
        assert len(layers) == 1
    assert "quantised again by another scale" in outcomes


def test_parts_of_a_tensor():
    def parts(q):
        return [quantised(t) for t in floats(q, SCALE, ZERO).chunk(2, 1)]

    layers, _ = ran(parts, integers(2, 8, 6, 5, dtype=torch.uint8))
    assert not pointwise(layers)


@pytest.mark.parametrize("same", [True, False])
def test_joins(same):
    """Parts of another scale are rescaled, one by one; those of the same scale are integers."""
    scales = [(SCALE, ZERO), (SCALE, ZERO) if same else (0.03, 90), (SCALE, ZERO)]
    parts = [integers(2, n, 6, 5, dtype=torch.uint8, seed=n) for n in (3, 4, 2)]
    layers, outcomes = ran(
        lambda *qs: quantised(torch.cat([floats(q, *s) for q, s in zip(qs, scales)], 1)), *parts)
    assert len(pointwise(layers)) == (0 if same else 1)
    assert sum("quantised again" in outcome for outcome in outcomes) == (0 if same else 1)


def test_joins_of_convolutions():
    """Each convolution stores the integers of the join, whatever pair is between."""
    def forward(m, x):
        x = pair(x, 2.0 ** -5, 120)
        left = pair(F.conv2d(x, m.weight(0), padding=1).relu(), 2.0 ** -4, 0)
        right = pair(F.conv2d(x, m.weight(1), padding=1), 2.0 ** -5, 130)
        both = pair(torch.cat([left, right], 1), 2.0 ** -5, 128)
        return quantised(F.conv2d(both, m.weight(2)), 2.0 ** -3, 128)

    model = Model(forward, (8, 3, 3, 3), (5, 3, 3, 3), (6, 13, 1, 1))
    layers, outcomes = ran(model, tensor(2, 3, 9, 10))
    assert len(pointwise(layers)) == 1  # of the input
    assert not any("computed at each call" in outcome for outcome in outcomes), outcomes
    assert sum("quantised again" in outcome for outcome in outcomes) == 2


@pytest.mark.parametrize("between", [True, False])
def test_a_pool_between_convolutions(between):
    """With a pair before it, and with one behind it alone: the convolution stores integers."""
    def forward(m, x):
        x = F.conv2d(pair(x, 2.0 ** -5, 120), m.weight(0), padding=1).relu()
        x = F.max_pool2d(pair(x, 2.0 ** -4, 0) if between else x, 3, 2, 1)
        return quantised(F.conv2d(pair(x, 2.0 ** -4, 0), m.weight(1)), 2.0 ** -3, 128)

    layers, outcomes = ran(Model(forward, (8, 3, 3, 3), (6, 8, 1, 1)), tensor(2, 3, 9, 10))
    (pool,) = (layer for layer in layers if layer["tactic"] == "max_pool")
    assert not any("quantize" in op for op in pool["ops"]) and len(pointwise(layers)) == 1
    assert not any("computed at each call" in outcome for outcome in outcomes), outcomes


@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_scales_that_do_not_keep_the_order(scale):
    """The largest number is of the smallest integer then."""
    ran(lambda q: F.max_pool2d(floats(q, scale, ZERO), 2), integers(1, 3, 6, 8, dtype=torch.uint8))


def test_a_scale_that_is_known_when_it_runs():
    def forward(q, scale, zero):
        return F.max_pool2d(decomposed.dequantize_per_tensor.tensor(
            q, scale, zero, 0, 255, torch.uint8), 2)

    q, zero = integers(1, 3, 6, 8, dtype=torch.uint8), torch.tensor(9)
    for scale in (0.5, -0.5):
        ran(forward, q, torch.tensor(scale), zero)


def test_places_of_the_largest():
    """Equal floats: the first of them, as before."""
    ran(lambda q: F.max_pool2d(floats(q, SCALE, ZERO), 2, return_indices=True),
        integers(1, 3, 6, 8, dtype=torch.uint8))


def test_infinite_numbers_saturate():
    x = tensor(1, 3, 6, 8)
    x[0, 0, 0, 0], x[0, 1, 2, 3] = torch.inf, -torch.inf
    ran(lambda x: quantised(F.max_pool2d(pair(x, SCALE, ZERO), 2)), x)
    ran(lambda x: quantised(torch.cat([pair(x, SCALE, ZERO), pair(x, 0.03, 90)], 1)), x)


def test_ranges_that_clip_more():
    """A pair whose range is narrower than the integers' is no copy."""
    def forward(q):
        return decomposed.quantize_per_tensor(floats(q, SCALE, 3), SCALE, 3, -127, 127, torch.int8)

    q = torch.arange(-128, 128, dtype=torch.int8).reshape(4, 64)
    layers, _ = ran(forward, q)
    assert layers


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 0.021, 3.3, 1e30, 1e36, 3e38])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_pairs_of_every_integer(scale, dtype):
    """What is left out of a graph gave each integer back; what did not stays."""
    if scale < torch.finfo(torch.float32).tiny and flushes_denormals():
        pytest.skip("this device takes the scale for 0")
    low, high = RANGE[dtype]
    q = torch.arange(low, high + 1).to(dtype).reshape(4, 64)
    module = Called(lambda q: quantised(floats(q, scale, low + 90).t(), scale, low + 90, dtype))
    with torch.no_grad():
        want = module(q)
        if scale < 1e36:
            assert torch.equal(want, q.t())
            got = tv.compile(module, inputs=[q], **OPTIONS)(q)
            assert torch.equal(got, want)


POOLS = {
    "2": lambda x: F.avg_pool2d(x, 2),
    "3 overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "divisor": lambda x: F.avg_pool2d(x, 3, 1, divisor_override=5),
    "1d": lambda x: F.avg_pool1d(x.flatten(2), 4),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
}


@pytest.mark.parametrize("scale", [SCALE, 0.03])
@pytest.mark.parametrize("name", POOLS)
def test_average_pools(name, scale):
    """In one launch from bytes to bytes. Of two elements and of four every second or fourth sum lies
    on a half: it is rounded as PyTorch does it, because it is computed in the same order."""
    q = integers(2, 8, 12, 16, dtype=torch.uint8)
    layers, outcomes = ran(lambda q: quantised(POOLS[name](floats(q, SCALE, ZERO)), scale, ZERO), q)
    assert [layer["tactic"] for layer in layers] == ["avg_pool"], layers
    assert any(outcome.startswith("read as integers by aten::") for outcome in outcomes)
    assert not any("computed at each call" in outcome for outcome in outcomes), outcomes


def test_a_pool_beside_other_readers():
    """Each dequantises what it reads; nothing is there for dequantising alone."""
    def forward(q):
        x = floats(q, SCALE, ZERO)
        return F.avg_pool2d(x, 2), F.avg_pool2d(x, 3), x * x, x * q

    layers, _ = ran(forward, integers(2, 8, 12, 16, dtype=torch.uint8))
    assert sum(layer["tactic"] == "avg_pool" for layer in layers) == 2
    assert not any({op.split("::")[-1] for op in layer["ops"]} == {"dequantize_per_tensor"}
                   for layer in layers), layers


@pytest.mark.parametrize("keep", [True, False])
def test_means_of_planes(keep):
    """Sums of whole planes are not added in PyTorch's order: what lies on a half but for that may
    be a step away, and nothing else."""
    q = integers(2, 64, 7, 9, dtype=torch.uint8)

    def steps(q):
        return floats(q, SCALE, ZERO).mean((2, 3), keepdim=keep) * (1 / 0.01)

    module = Called(lambda q: quantised(floats(q, SCALE, ZERO).mean((2, 3), keepdim=keep), 0.01,
                                        128))
    with torch.no_grad():
        made = tv.compile(module, inputs=[q], **OPTIONS)
        off = (made(q).int() - module(q).int()).abs()
        from_a_half = (steps(q) - steps(q).floor() - 0.5).abs()
    assert off.max() <= 1 and (from_a_half[off > 0] < 1e-3).all()
    layers = [layer for engine in tv.engines(made) for layer in engine.info()["layers"]]
    assert len(layers) == 1


CASES = {  # kernel, stride, padding, output padding, groups
    "1": (3, 1, 1, 0, 1),
    "2": (2, 2, 0, 0, 1),
    "4 of 2": (4, 2, 1, 0, 1),
    "3 of 2": (3, 2, 1, 1, 1),
    "grouped": (4, 2, 1, 0, 2),
    "gaps": (2, 3, 0, 1, 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tactics_of", ["device", "gpu"], indirect=True)
def test_transposed_convolutions(tactics_of, name):
    """Sums are exact, ties too: all scales are powers of two."""
    kernel, stride, padding, more, groups = CASES[name]

    def forward(m, x):
        y = F.conv_transpose2d(pair(x, 2.0 ** -5, 120), m.weight(0), torch.arange(6) / 8, stride,
                               padding, more, groups) if groups == 1 else F.conv_transpose2d(
            pair(x, 2.0 ** -5, 120), m.weight(0), None, stride, padding, more, groups)
        return quantised(y.relu(), 2.0 ** -3, 0)

    model = Model(forward, (8, 6 // groups, kernel, kernel), axis=1)
    torch._dynamo.reset()
    x = tensor(2, 8, 7, 9)
    with torch.no_grad():
        got = torch.compile(model, backend="vulkan", fullgraph=True, options=OPTIONS)(x)
        assert torch.equal(got, model(x)) and len(got.unique()) > 20
    _, outcomes = ran(model, x)
    assert all(outcome == "multiplied as integers by 1 convolution" for outcome in outcomes), outcomes


@turns(2)
@pytest.mark.parametrize("dims", [1, 3])
def test_transposed_convolutions_of_other_ranks(dims):
    function = {1: F.conv_transpose1d, 3: F.conv_transpose3d}[dims]
    model = Model(lambda m, x: quantised(function(pair(x, 2.0 ** -5, 120), m.weight(0), stride=2),
                                         2.0 ** -3, 128), (4, 3, *[2] * dims), axis=1)
    _, outcomes = ran(model, tensor(2, 4, *[5] * dims))
    assert len(outcomes) == 2 and all("multiplied as integers" in outcome for outcome in outcomes)


def test_launches_of_a_transposed_convolution():
    """It stores integers, which are put in order then: no launch is there for quantising alone."""
    model = Model(lambda m, x: quantised(
        F.conv_transpose2d(pair(x, 2.0 ** -5, 120), m.weight(0), torch.ones(6), 2, 1).relu(),
        2.0 ** -3, 0), (8, 6, 4, 4), axis=1)
    layers, _ = ran(model, tensor(1, 8, 9, 9))
    assert len(pointwise(layers)) == 1, layers  # of the input
