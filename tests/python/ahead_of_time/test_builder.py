"""tv.Builder: the same networks by hand and from torch."""

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_vulkan as tv

from helpers import assert_same


def convolutional(batch):
    """An input, two convolutions with a residual, pooling and a linear layer; and torch's own."""
    torch.manual_seed(0)
    a, b, head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)
    builder = tv.Builder()
    x = builder.input("x", (batch, 3, 12, 12))

    def convolution(name, x, layer):
        weight, bias = builder.weight(f"{name}_w", layer.weight), builder.weight(
            f"{name}_b", layer.bias)
        return builder.op("aten::convolution", x, weight, bias, [1, 1], [1, 1], [1, 1], False,
                          [0, 0], 1)

    first = builder.op("aten::relu", convolution("a", x, a))
    second = builder.op("aten::add.Tensor", convolution("b", first, b), first)
    pooled = builder.op("aten::mean.dim", second, [2, 3])
    y = builder.op("aten::linear", pooled, builder.weight("head_w", head.weight),
                   builder.weight("head_b", head.bias))
    builder.output("y", y)

    def reference(x):
        first = torch.relu(a(x))
        return head((b(first) + first).mean((2, 3))).detach()

    return builder, reference


def attention():
    """A transformer's attention with a dynamic length, and torch's own."""
    torch.manual_seed(0)
    weights = {name: torch.randn(16, 16) / 4 for name in ("q", "k", "v")}
    builder = tv.Builder()
    x = builder.input("x", (-1, -1, 16))
    q, k, v = (builder.op("aten::matmul", x, builder.weight(name, w))
               for name, w in weights.items())
    scores = builder.op("aten::bmm", q, builder.op("aten::transpose.int", k, 1, 2))
    scores = builder.op("aten::softmax.int", builder.op("aten::mul.Scalar", scores, 0.25), -1)
    builder.output("scores", scores)
    builder.output("y", builder.op("aten::bmm", scores, v))

    def reference(x):
        q, k, v = (x @ w for w in weights.values())
        scores = torch.softmax(q @ k.mT * 0.25, -1)
        return {"scores": scores, "y": scores @ v}

    return builder, reference


def test_convolutional_network():
    builder, reference = convolutional(4)
    engine = builder.build()
    x = torch.randn(4, 3, 12, 12)
    torch.testing.assert_close(engine.run({"x": x})["y"], reference(x))
    assert [o["name"] for o in engine.info()["outputs"]] == ["y"]
    assert {w["name"] for w in engine.info()["weights"]} == {
        "a_w", "a_b", "b_w", "b_b", "head_w", "head_b"}


def test_attention_with_two_dynamic_dimensions():
    builder, reference = attention()
    profile = tv.Profile(x=((1, 2, 16), (4, 8, 16), (8, 40, 16)))
    engine = builder.build(profiles=[profile])
    for shape in ((1, 2), (4, 8), (8, 40), (3, 17)):
        x = torch.randn(*shape, 16)
        got, want = engine.run({"x": x}), reference(x)
        assert got.keys() == want.keys()
        for name in want:
            torch.testing.assert_close(got[name], want[name])
    with pytest.raises(ValueError, match='input "x" dimension 1: got 41, want 2 to 40'):
        engine.run({"x": torch.randn(1, 41, 16)})


def test_several_profiles(tmp_path):
    builder, reference = convolutional(-1)
    shapes = [((low, 3, 12, 12), (opt, 3, 12, 12), (high, 3, 12, 12))
              for low, opt, high in ((1, 1, 4), (3, 16, 16), (30, 32, 32))]
    engine = builder.build(profiles=[tv.Profile(x=ranges) for ranges in shapes])
    info = engine.info()
    assert [[s["opt"] for s in profile] for profile in info["profiles"]] == [[1], [16], [32]]
    assert info["memory"]["activations"] == sorted(info["memory"]["activations"])
    engine.save(tmp_path / "net.vke")
    for each in (engine, tv.Engine.load(tmp_path / "net.vke")):
        for batch in (1, 3, 4, 16, 30, 32):
            x = torch.randn(batch, 3, 12, 12)
            torch.testing.assert_close(each.run({"x": x})["y"], reference(x))
        # The usual size that is nearest decides where two profiles fit.
        assert [each._part_for([[n, 3, 12, 12]])[0] for n in (1, 3, 4, 31)] == [0, 0, 0, 2]
        for batch in (17, 33):
            with pytest.raises(ValueError, match=f"got {batch}"):
                each.run({"x": torch.randn(batch, 3, 12, 12)})
    size = sum(w.numel() * 4 for w in (nn.Conv2d(3, 8, 3).weight, nn.Conv2d(8, 8, 3).weight))
    assert info["memory"]["weights"] > size


def test_profiles_of_a_program(tmp_path):
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    whole = tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(64, 8), name="x")
    profiles = [tv.Profile(x=((1, 8), (1, 8), (4, 8))), tv.Profile(x=((8, 8), (64, 8), (64, 8)))]
    program = tv.compile(model, [whole], profiles=profiles, min_block_size=1)
    for output_format in ("exported_program", "torchscript"):
        tv.save(program, tmp_path / "net", output_format=output_format)
        for each in (program, tv.load(tmp_path / "net")):
            for batch in (1, 4, 8, 64):
                x = torch.randn(batch, 8)
                assert_same(each(x), model(x).detach())
            with pytest.raises(ValueError, match="no shape profile takes.*'x' dimension 0 is 5; "
                                                 ".*1 to 4;.*8 to 64"):
                each(torch.randn(5, 8))
    (engine,) = tv.engines(program)
    assert len(engine.info()["profiles"]) == 2
    with torch.no_grad():
        model[0].weight.mul_(2)
    tv.refit(program, {"0.bias": torch.ones(6)})
    for batch in (1, 64):
        x = torch.randn(batch, 8)
        assert_same(program(x), model(x).detach())
    for bad, message in ((tv.Profile(y=((1, 8),) * 3), "no input 'y'"),
                         (tv.Profile(x=((1, 8), (1, 8), (65, 8))), "want a part of 1 to 64"),
                         (tv.Profile(x=((1, 9),) * 3), "want a part of 8 to 8")):
        with pytest.raises(ValueError, match=message):
            tv.compile(model, [whole], profiles=[bad], min_block_size=1)


def test_operators_of_many_kinds():
    builder = tv.Builder()
    x, ids = builder.input("x", (2, 6)), builder.input("ids", (3,), torch.int64)
    table = builder.weight("table", torch.arange(20.0).reshape(5, 4))
    a, b = builder.op("aten::split.Tensor", x, 3, dim=1)
    builder.output("sum", builder.op("aten::sub.Tensor", a, b, alpha=2))
    builder.output("joined", builder.op("aten::cat", [b, a], 1))
    rows = builder.op("aten::embedding", table, ids)
    assert rows.shape == (3, 4) and rows.dtype == torch.float32
    builder.output("rows", builder.op("aten::layer_norm", rows, [4]))
    engine = builder.build()
    given = torch.randn(2, 6)
    got = engine.run({"x": given, "ids": torch.tensor([0, 4, 2])})
    a, b = given.split(3, 1)
    torch.testing.assert_close(got["sum"], a - 2 * b)
    torch.testing.assert_close(got["joined"], torch.cat([b, a], 1))
    want = F.layer_norm(torch.arange(20.0).reshape(5, 4)[[0, 4, 2]], [4])
    torch.testing.assert_close(got["rows"], want)
    arrays = engine.run({"x": given.numpy(), "ids": numpy.array([0, 4, 2])})
    assert isinstance(arrays["sum"], numpy.ndarray)


def test_weights_are_refitted():
    builder, reference = convolutional(2)
    engine = builder.build()
    x = torch.randn(2, 3, 12, 12)
    torch.testing.assert_close(engine.run({"x": x})["y"], reference(x))
    engine.refit({"head_b": torch.ones(5), "head_w": torch.zeros(5, 8)})
    assert_same(engine.run({"x": x})["y"], torch.ones(2, 5))


def test_shapes_are_known_at_once():
    builder = tv.Builder()
    x = builder.input("x", (-1, 3, 8))
    y = builder.op("aten::mm", builder.op("aten::view", x, [-1, 8]),
                   builder.weight("w", torch.ones(8, 4)))
    assert x.shape == (-1, 3, 8) and y.shape == (-1, 4) and y.dtype == torch.float32


def test_errors():
    builder = tv.Builder()
    x = builder.input("x", (-1, 8))
    with pytest.raises(ValueError, match="no operator 'aten::reluu'"):
        builder.op("aten::reluu", x)
    with pytest.raises(ValueError, match="aten::add has no overload 'Matrix'"):
        builder.op("aten::add.Matrix", x, x)
    with pytest.raises(ValueError, match=r"\[aten::mm\] does not take these arguments"):
        builder.op("aten::mm", x, builder.weight("narrow", torch.ones(7, 2)))
    with pytest.raises(ValueError, match="b.weight makes one"):
        builder.op("aten::mm", x, torch.ones(8, 2))
    with pytest.raises(ValueError, match="another Builder"):
        builder.op("aten::relu", tv.Builder().input("x", (1,)))
    for name in ("x", "not a name", "training"):
        with pytest.raises(ValueError, match="taken|identifier"):
            builder.input(name, (1,))
    with pytest.raises(ValueError, match="no output"):
        builder.build()
    y = builder.op("aten::relu", x)
    builder.output("y", y)
    with pytest.raises(ValueError, match="output already"):
        builder.output("z", y)
    with pytest.raises(ValueError, match=r"profiles=\[tv.Profile\(x=\(min, opt, max\)\)\]"):
        builder.build()
    with pytest.raises(ValueError, match="no input 'z'"):
        builder.build([tv.Profile(z=((1, 8),) * 3)])
    with pytest.raises(ValueError, match=r"dimension 1: got 9 to 9, want 8"):
        builder.build([tv.Profile(x=((1, 9),) * 3)])
    with pytest.raises(ValueError, match="want .min, opt, max. shapes"):
        tv.Profile(x=(1, 8))
    with pytest.raises(ValueError, match="unknown setting"):
        builder.build([tv.Profile(x=((1, 8),) * 3)], speed=11)
    exponential = tv.Builder()
    x = exponential.input("x", (4, 4))
    exponential.output("y", exponential.op("aten::linalg_matrix_exp", x))
    with pytest.raises(ValueError, match="linalg_matrix_exp"):
        exponential.build()
