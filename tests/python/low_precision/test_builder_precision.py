"""tv.Builder's set_dynamic_range and set_precision: what is computed in integers, what that gives,
and what is refused."""

import re

import pytest
import torch
from torch.nn import functional as F

import torch_vulkan as tv

INT8 = {"enabled_precisions": {torch.float32, torch.int8}, "optimization_level": 0}
RANGES = {"x": (-1.25, 1.0), "pooled": (-0.25, 3.0)}


class Net:
    """A convolution, a pool and two products, by hand; and its parts in PyTorch."""

    def __init__(self):
        torch.manual_seed(0)
        self.w, self.v, self.u = (torch.randn(*s) / 3 for s in ((6, 3, 3, 3), (8, 6), (8, 4)))
        self.b = torch.randn(6)
        self.builder = b = tv.Builder()
        self.x = b.input("x", (-1, 3, 6, 5))
        self.conv = b.op("aten::convolution", self.x, b.weight("w", self.w), b.weight("b", self.b),
                         [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        self.pooled = b.op("aten::mean.dim", b.op("aten::relu", self.conv), [2, 3])
        rows = b.op("aten::reshape", self.pooled, [-1, 6])
        self.linear = b.op("aten::linear", rows, b.weight("v", self.v))
        self.relu = b.op("aten::relu", self.linear)
        self.product = b.op("aten::matmul", self.relu, b.weight("u", self.u))
        b.output("y", self.product)

    def ranged(self, *names):
        for name in names or RANGES:
            self.builder.set_dynamic_range(getattr(self, name), *RANGES[name])
        return self

    def build(self, **settings):
        shapes = tuple((n, 3, 6, 5) for n in (1, 2, 4))
        return self.builder.build([tv.Profile(x=shapes)], **{**INT8, **settings})

    def reference(self, x, in_int8):
        """What it is with these layers in int8: by name, the largest magnitude of the input."""
        def product(name, x, weight, compute):
            if name not in in_int8:
                return compute(x, weight)
            return compute(steps(x, in_int8[name]), by_rows(weight))

        x = product("conv", x, self.w, lambda x, w: F.conv2d(x, w, self.b, padding=1)).relu()
        x = product("linear", x.mean((2, 3)), self.v, F.linear).relu()
        return product("product", x, self.u.T, F.linear)


def steps(x, amax):
    scale = torch.tensor(amax / 127)
    return (x / scale).round().clamp(-128, 127) * scale


def by_rows(w):
    scale = w.flatten(1).abs().amax(1).div(127).view(-1, *[1] * (w.dim() - 1))
    return (w / scale).round() * scale


def data():
    torch.manual_seed(1)
    return torch.randn(3, 3, 6, 5)


def check(got, want, other, step):
    """It is the one and not the other; a sum that rounds otherwise is a step away."""
    torch.testing.assert_close(got, want, rtol=0, atol=step)
    assert (got - other).abs().max() > 1e-3


def test_ranges_make_integers():
    net, x = Net().ranged(), data()
    engine = net.build()
    got = engine.run({"x": x})["y"]
    in_int8 = {"conv": 1.25, "linear": 3.0}
    # x has larger numbers, which are clipped.
    assert x.abs().max() > 2.5
    check(got, net.reference(x, in_int8), net.reference(x, {}), 0.02)
    wide = net.reference(x, {"conv": 4.0, "linear": 3.0})
    assert (got - wide).abs().max() > 0.02


def test_ranges_are_a_calibration(tmp_path):
    """The same engine as by one that has these scales; and they come before its own."""
    path = tmp_path / "net.cache"
    path.write_text("TRT-8601-MinMaxCalibration\nw.input: 3f800000\nv.input: 3f800000\n"
                    "u.input: 3c800000\n")
    calibration = tv.Calibration("TRT-101401-MinMaxCalibration", {
        "w.input": 1.25 / 127, "v.input": 3.0 / 127, "u.input": 1 / 64})
    x = data()
    want = Net().build(calibration=calibration).run({"x": x})["y"]

    got = Net().ranged().build(calibration=path).run({"x": x})["y"]
    assert (got == want).all()
    net = Net()
    check(got, net.reference(x, {"conv": 1.25, "linear": 3.0, "product": 127 / 64}),
          net.reference(x, {"conv": 1.25, "linear": 3.0}), 0.03)


def test_one_layer_alone():
    net, x = Net().ranged("pooled"), data()
    got = net.build().run({"x": x})["y"]
    check(got, net.reference(x, {"linear": 3.0}), net.reference(x, {}), 0.02)


def test_float32():
    """A layer that stays in it, though its input has a range."""
    net, x = Net().ranged(), data()
    net.builder.set_precision(net.conv, torch.float32)
    got = net.build(enabled_precisions={torch.int8}).run({"x": x})["y"]
    check(got, net.reference(x, {"linear": 3.0}), net.reference(x, {"conv": 1.25, "linear": 3.0}),
          0.02)


def large():
    """Builder of x · 1000, summed, / 1000, of which the product leaves float16's range."""
    b = tv.Builder()
    x = b.input("x", (2, 8))
    relu = b.op("aten::relu", x)
    product = b.op("aten::mul.Scalar", relu, 1000.0)
    total = b.op("aten::cumsum", product, 1)
    result = b.op("aten::div.Scalar", total, 1000.0)
    b.output("y", result)
    return b, (relu, product, total, result)


def test_float32_among_float16():
    x = torch.full((2, 8), 200.0)
    settings = {"enabled_precisions": {torch.float32, torch.float16}, "optimization_level": 0}
    b, layers = large()
    assert not b.build(**settings).run({"x": x})["y"].isfinite().all()
    for value in layers:
        b.set_precision(value, torch.float32)
    got = b.build(**settings).run({"x": x})["y"]
    torch.testing.assert_close(got, x.cumsum(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits(dtype):
    """A layer that is in them, and not in int8."""
    precisions = {torch.float32, dtype, torch.int8}
    x = data()
    net = Net().ranged()
    both = net.build(enabled_precisions=precisions).run({"x": x})["y"]
    net = Net().ranged()
    net.builder.set_precision(net.linear, dtype)
    net.builder.set_precision(net.conv, torch.int8)  # else floats may be faster
    got = net.build(enabled_precisions=precisions).run({"x": x})["y"]
    close = 0.02 if dtype == torch.float16 else 0.1
    torch.testing.assert_close(got, net.reference(x, {"conv": 1.25}), rtol=0, atol=close)
    assert (got != both).any()


@pytest.mark.parametrize("level", [0, 1])
def test_int8_is_required(level):
    """At level 1 as well, where on a CPU driver floats are faster for most layers."""
    net, x = Net().ranged(), data()
    net.builder.set_precision(net.conv, torch.int8)
    net.builder.set_precision(net.linear, torch.int8)
    engine = net.build(optimization_level=level)
    in_int8 = {"conv": 1.25, "linear": 3.0}
    check(engine.run({"x": x})["y"], net.reference(x, in_int8), net.reference(x, {}), 0.02)


def refused(net, message, **settings):
    with pytest.raises(ValueError, match=message):
        net.build(**settings)


def test_int8_that_cannot_be():
    net = Net().ranged()
    net.builder.set_precision(net.relu, torch.int8)
    refused(net, "'layers.relu_5' cannot be computed in int8: want a product of matrices or a")
    net = Net().ranged("pooled")
    net.builder.set_precision(net.conv, torch.int8)
    refused(net, "'layers.convolution_0' in int8 needs the range of its input: .*'w.input'")
    net = Net().ranged()
    net.builder.set_precision(net.conv, torch.int8)
    refused(net, "'layers.convolution_0' cannot be computed in int8: .* that no setting excludes",
            autocast_excluded_ops=["aten::convolution"])


def test_precisions_that_are_not_permitted():
    net = Net().ranged()
    refused(net, "nothing is computed in int8 unless enabled_precisions has torch.int8",
            enabled_precisions={torch.float32})
    net = Net()
    net.builder.set_precision(net.linear, torch.int8)
    refused(net, "'layers.linear_4' in torch.int8 needs it in enabled_precisions",
            enabled_precisions={torch.float32, torch.float16})
    net = Net().ranged()
    net.builder.set_precision(net.linear, torch.float16)
    refused(net, "'layers.linear_4' in torch.float16 needs it in enabled_precisions")
    refused(net, "in torch.float16 needs it", enabled_precisions={torch.int8, torch.bfloat16})


def test_operators_that_stay_in_float32():
    b = tv.Builder()
    y = b.op("aten::cumsum", b.input("x", (2, 8)), -1)
    b.output("y", y)
    b.set_precision(y, torch.float16)
    with pytest.raises(ValueError, match="'layers.cumsum_0' in torch.float16: aten::cumsum is "
                                         "computed in float32, as torch.autocast has it"):
        b.build(enabled_precisions={torch.float32, torch.float16})


def test_ranges_that_change_nothing():
    net = Net().ranged()
    net.builder.set_dynamic_range(net.conv, -1, 1)
    net.builder.set_dynamic_range(net.product, -1, 1)
    message = re.escape("range of 'layers.convolution_0', 'layers.matmul_6' changes nothing")
    with pytest.warns(UserWarning, match=message):
        net.build()


def test_results_of_several():
    """Parts of one operator's result, each with a range of its own."""
    torch.manual_seed(2)
    w, v, x = torch.randn(4, 5), torch.randn(4, 5), torch.randn(6, 8)
    b = tv.Builder()
    first, second = b.op("aten::split.Tensor", b.op("aten::relu", b.input("x", (6, 8))), 4, 1)
    swapped = b.op("aten::transpose.int", b.op("aten::transpose.int", second, 0, 1), 0, 1)
    b.output("y", b.op("aten::mm", first, b.weight("w", w)))
    b.output("z", b.op("aten::mm", swapped, b.weight("v", v)))
    b.set_dynamic_range(first, 0, 1.5)
    b.set_dynamic_range(second, 0, 0.5)
    got = b.build(**INT8).run({"x": x})
    for name, part, weight, amax in (("y", x[:, :4], w, 1.5), ("z", x[:, 4:], v, 0.5)):
        want = steps(part.relu(), amax) @ by_rows(weight.T).T
        torch.testing.assert_close(got[name], want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("low, high", [(1, 0), (0, 0), (float("nan"), 1), (0, float("inf")),
                                       ("0", 1), (True, 2)])
def test_bounds_that_are_no_range(low, high):
    net = Net()
    with pytest.raises(ValueError, match="set_dynamic_range: got .* want two finite numbers"):
        net.builder.set_dynamic_range(net.x, low, high)


def test_bad_values():
    net, other = Net(), Net()
    b = net.builder
    with pytest.raises(ValueError, match="set_dynamic_range: got Tensor, want a Value of this"):
        b.set_dynamic_range(torch.ones(2), 0, 1)
    with pytest.raises(ValueError, match="set_precision: got Value, want a Value of this Builder"):
        b.set_precision(other.conv, torch.float32)
    with pytest.raises(ValueError, match="set_dynamic_range: got a weight"):
        b.set_dynamic_range(b.weight("more", torch.ones(2)), 0, 1)
    with pytest.raises(ValueError, match="set_precision: got an input, want an operator's result"):
        b.set_precision(net.x, torch.float32)
    with pytest.raises(ValueError, match="set_precision: got torch.int32, want one of torch.float"):
        b.set_precision(net.conv, torch.int32)
    with pytest.raises(ValueError, match="name 'layers': want an identifier"):
        b.input("layers", (1,))
