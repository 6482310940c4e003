"""Products and convolutions of two quantised tensors: integers are multiplied, and sums are exact."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed
from torch import nn

import torch_vulkan as tv

from marks import turns
from parity import OPTIONS, tactics_taken, tensor

decomposed = torch.ops.quantized_decomposed
RANGE = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


def integers(*shape, dtype, seed=0):
    low, high = RANGE[dtype]
    return tensor(*shape, dtype=dtype, low=low, high=high + 1, seed=seed)


def pair(x, scale, zero, dtype=torch.uint8):
    """As a quantiser writes it around an activation."""
    q = decomposed.quantize_per_tensor(x, scale, zero, *RANGE[dtype], dtype)
    return decomposed.dequantize_per_tensor(q, scale, zero, *RANGE[dtype], dtype)


def floats(q, scale, zero):
    return decomposed.dequantize_per_tensor(q, scale, zero, *RANGE[q.dtype], q.dtype)


def channels(q, scales, zeros, axis=0):
    return decomposed.dequantize_per_channel(q, scales, zeros, axis, *RANGE[q.dtype], q.dtype)


def near(function, *args, dynamic=None, more=()):
    """Eager adds up rounded floats, whose sums may cancel: errors are beside the largest result."""
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, dynamic=dynamic,
                             options=OPTIONS)
    with torch.no_grad():
        for case in (args, *more):
            wanted, got = function(*case), compiled(*case)
            assert got.dtype == wanted.dtype and got.shape == wanted.shape
            assert (got - wanted).abs().max() <= 4e-6 * wanted.abs().max()


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


@torch.no_grad()
def tactics(function, *args):
    module = function if isinstance(function, nn.Module) else Called(function)
    compiled = tv.compile(module, inputs=list(args), **OPTIONS)
    return [layer["tactic"] for engine in tv.engines(compiled)
            for layer in engine.info()["layers"]]


class Weight(nn.Module):
    """A quantised weight, with what it is used for."""

    def __init__(self, use, *shape, dtype=torch.int8, zeros="none"):
        super().__init__()
        self.use = use
        self.register_buffer("q", integers(*shape, dtype=dtype, seed=1))
        self.register_buffer("scales", tensor(shape[0], seed=2).abs() / 50 + 0.01)
        low, high = {"none": (0, 1), "some": RANGE[dtype]}[zeros]
        self.register_buffer("zeros", tensor(shape[0], dtype=torch.int64, low=low, high=high + 1))

    def forward(self, *args):
        return self.use(channels(self.q, self.scales, self.zeros), *args)


@pytest.mark.parametrize("rows", [1, 3, 37])
@pytest.mark.parametrize("dtype, weight, zeros", [
    (torch.uint8, torch.int8, "none"), (torch.int8, torch.int8, "some"),
    (torch.uint8, torch.uint8, "some"), (torch.int8, torch.uint8, "none")])
def test_products(rows, dtype, weight, zeros):
    q = integers(rows, 96, dtype=dtype)
    layer = Weight(lambda w, q: torch.mm(floats(q, 0.02, 7), w.t()), 53, 96, dtype=weight,
                   zeros=zeros)
    near(layer, q)
    assert any(name.startswith("matmul_integer") for name in tactics(layer, q))


@pytest.mark.parametrize("tactics_of", ["gpu"], indirect=True)
@pytest.mark.parametrize("rows", [1, 5, 16])
@pytest.mark.parametrize("k", [1040, 1036, 1031])  # runs of 16 bytes, words, padded rows
@pytest.mark.parametrize("zeros", ["none", "some"])
def test_few_rows_of_a_gpu(tactics_of, rows, k, zeros):
    q = integers(rows, k, dtype=torch.uint8)
    layer = Weight(lambda w, q: torch.mm(floats(q, 0.02, 7), w.t()).relu(), 43, k, zeros=zeros)
    with tactics_taken() as names:
        near(layer, q)
    assert any(name.startswith("matmul_integer_rows_") for name in names), names


def test_layers():
    x, bias = tensor(2, 5, 64), tensor(40)
    layer = Weight(lambda w, x: nn.functional.linear(pair(x, 0.03, 120), w, bias).relu(), 40, 64)
    near(layer, x)
    near(lambda w, x: torch.addmm(bias, pair(x, 0.03, 120), pair(w, 0.02, 128).t()),
          tensor(40, 64), tensor(7, 64))
    assert sum(name.startswith("pointwise") for name in tactics(layer, x)) == 1  # it quantises


def test_batches():
    """As attention has them: both operands are made at each call."""
    q, k = tensor(2, 3, 11, 32), tensor(2, 3, 13, 32, seed=1)

    def scores(q, k):
        return pair(q, 0.03, 118) @ pair(k, 0.025, 3, torch.int8).transpose(-1, -2)

    near(scores, q, k)
    assert any(name.startswith("matmul_integer") for name in tactics(scores, q, k))
    big, weight = tensor(6, 64, 128), tensor(6, 128, 70, seed=1)
    near(lambda a, b: torch.bmm(pair(a, 0.03, 118), pair(b, 0.02, 130)), big, weight)


def test_sums_are_exact():
    """Largest magnitudes, and steps of k enough to leave what float32 counts by ones."""
    for k in (300, 2048, 33000):
        a = torch.full((3, k), 255, dtype=torch.uint8)
        a[1] = integers(k, dtype=torch.uint8)
        b = torch.full((37, k), -128, dtype=torch.int8)
        b[5] = integers(k, dtype=torch.int8, seed=3)
        a[2, ::2] = 0

        def sums(a, b):
            return floats(a, 1.0, 0) @ floats(b, 1.0, 127).t()

        wanted = (a.long() @ (b.long() - 127).t()).float()
        compiled = torch.compile(sums, backend="vulkan", fullgraph=True, dynamic=False,
                                 options=OPTIONS)
        assert torch.equal(compiled(a, b), wanted)


@turns(3, each=("zeros", "dtype", "tactics_of"))
@pytest.mark.parametrize("zeros", ["none", "some"])
@pytest.mark.parametrize("dtype, weight", [(torch.uint8, torch.int8), (torch.int8, torch.uint8)])
@pytest.mark.parametrize("shape, kernel, how", [
    ((2, 64, 9, 9), (24, 64, 1, 1), {}), ((1, 70, 9, 7), (40, 70, 3, 3), {"padding": 1}),
    ((2, 3, 17, 15), (24, 3, 3, 3), {"padding": (1, 0), "stride": 2}),
    ((1, 8, 12, 12), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((1, 8, 9, 9), (12, 4, 3, 3), {"groups": 2, "dilation": 2}),
    ((2, 6, 19), (5, 6, 4), {"padding": 2}), ((1, 3, 5, 6, 7), (4, 3, 3, 2, 3), {"padding": 1})])
def test_convolutions(shape, kernel, how, dtype, weight, zeros):
    """Where an input is padded, its zero point is."""
    convolve = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[len(shape) - 2]
    q = integers(*shape, dtype=dtype)
    bias = tensor(kernel[0])
    layer = Weight(lambda w, q: convolve(floats(q, 0.02, 7), w, bias, **how), *kernel,
                   dtype=weight, zeros=zeros)
    near(layer, q)
    names = tactics(layer, q)
    kinds = ("conv_integer", "conv_depthwise", "_simd")
    assert any(kind in name for name in names for kind in kinds), names


def test_convolution_sums_are_exact():
    q = torch.full((1, 600, 4, 5), 255, dtype=torch.uint8)
    w = torch.full((3, 600, 3, 3), -128, dtype=torch.int8)
    w[1], q[:, ::3] = integers(600, 3, 3, dtype=torch.int8), 1
    function = lambda q, w: torch.conv2d(floats(q, 1.0, 0), floats(w, 1.0, 127), padding=1)  # noqa: E731
    wanted = torch.conv2d(q.double(), w.double() - 127, padding=1).float()
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)
    assert torch.equal(compiled(q, w), wanted)


def test_pairs_between_layers_have_no_kernel():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Weight(lambda w, x: torch.conv2d(x, w, self.bias, padding=1), 16, 3, 3, 3)
            self.second = Weight(lambda w, x: torch.conv2d(x, w, padding=1), 16, 16, 3, 3)
            self.third = Weight(lambda w, x: nn.functional.linear(x, w), 10, 16)
            self.register_buffer("bias", tensor(16))

        def forward(self, x):
            x = pair(self.first(pair(x, 0.03, 120)).relu(), 0.1, 0)
            x = pair((self.second(x) + x).relu(), 0.6, 0)
            return self.third(pair(x.mean((2, 3)), 0.3, 0))

    net, x = Net().eval(), tensor(2, 3, 12, 12)
    steps = (torch.compile(net, backend="vulkan", options=OPTIONS)(x) - net(x)).abs().max()
    assert steps < 0.05 * net(x).abs().max()
    (engine,) = tv.engines(tv.compile(net, inputs=[x], **OPTIONS))
    pointwise = [layer for layer in engine.info()["layers"] if layer["tactic"].startswith("pointwise")]
    assert len(pointwise) <= 2, engine.info()["layers"]
    (report,) = tv.dry_run(net, [x], min_block_size=1).engines
    outcomes = sorted(tensor["outcome"] for tensor in report["quantised"])
    assert sum(outcome.startswith("multiplied as integers by 1 convolution") for outcome in outcomes) >= 4
    assert sum(outcome.startswith("multiplied as integers by 1 product") for outcome in outcomes) == 2
    assert any("aten::add.Tensor" in outcome for outcome in outcomes), outcomes


def test_rows_with_scales_of_their_own():
    """Dynamic quantisation by tokens."""
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Weight(lambda w, x: nn.functional.linear(x, w), 40, 64)

        def forward(self, x):
            scales = x.abs().amax(-1, keepdim=True) / 127
            zeros = torch.zeros_like(scales, dtype=torch.int64)
            q = decomposed.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
            return self.weight(decomposed.dequantize_per_token(
                q, scales, zeros, -128, 127, torch.int8, torch.float32))

    layer, x = Layer(), tensor(2, 9, 64)
    near(layer, x)
    assert any(name.startswith("matmul_integer") for name in tactics(layer, x))


def test_scales_along_the_sum_stay_floats():
    q, scales = integers(5, 32, dtype=torch.int8), tensor(32).abs() + 0.1
    function = lambda q, w: channels(q, scales, torch.zeros(32, dtype=torch.int64), 1) @ pair(w, 0.1, 9)  # noqa: E731,E501
    near(function, q, tensor(32, 7))
    assert not any(name.startswith("matmul_integer") for name in tactics(function, q, tensor(32, 7)))


def test_sums_that_32_bits_do_not_hold_stay_floats():
    a, b = integers(2, 40000, dtype=torch.uint8), torch.full((40000, 3), -128, dtype=torch.int8)
    function = lambda a, b: floats(a, 1.0, 0) @ floats(b, 1.0, 127)  # noqa: E731
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)
    wanted = torch.full((2, 3), -255.0 * 255 * 40000)
    torch.testing.assert_close(compiled(a.fill_(255), b), wanted, rtol=1e-4, atol=0)
    assert not any(name.startswith("matmul_integer") for name in tactics(function, a, b))


@pytest.mark.parametrize("zero", [torch.tensor([0.25, -3.5, 7.75]), 200_000])
def test_zero_points_that_are_no_elements_stay_floats(zero):
    """Sums of 32 bits hold neither fractions nor any number."""
    def function(x, q):
        weight = (floats(q, 0.1, zero) if isinstance(zero, int)
                  else channels(q, torch.tensor([0.1, 0.2, 0.3]), zero))
        return floats(x, 0.05, -zero if isinstance(zero, int) else 7) @ weight.t()

    near(function, integers(5, 64, dtype=torch.uint8), integers(3, 64, dtype=torch.int8, seed=1))


def test_dynamic():
    layer = Weight(lambda w, x: nn.functional.linear(pair(x, 0.03, 120), w), 40, 64)
    near(layer, tensor(3, 64), dynamic=True, more=[(tensor(17, 64),)])


def test_weights_that_are_quantised_in_the_graph():
    """fold_quantize=False: the parameter stays a float, and is quantised again when it changes."""
    class Layer(nn.Linear):
        def forward(self, x):
            w = pair(self.weight, 0.004, 0, torch.int8)
            return nn.functional.linear(pair(x, 0.03, 120), w, self.bias)

    torch.manual_seed(0)
    layer, x = Layer(64, 40).eval(), tensor(3, 64)
    fast = torch.compile(layer, backend="vulkan", fullgraph=True, options=OPTIONS)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), layer(x), rtol=1e-5, atol=1e-4)
            layer.weight.copy_(layer.weight.flip(0))
