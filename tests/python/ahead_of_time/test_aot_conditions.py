"""What a capture found out about sizes: outside of it a call is an error, never another result."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from aot_helpers import compiled, rows
from helpers import assert_same


class Parity(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 if x.shape[0] % 2 == 0 else torch.relu(x) * 3


class Larger(nn.Module):
    def forward(self, x, *, other):
        y = torch.relu(x) * (2 if x.shape[0] > other["y"].shape[0] else 3)
        return y + other["y"].sum()


def refuses(program, message, *args, **kwargs):
    with pytest.raises((ValueError, RuntimeError), match=message):
        program(*args, **kwargs)


@pytest.fixture(params=["net.pt2", "net.pt"])
def reopened(request, tmp_path):
    """A program, the same loaded, and as torch alone loads it."""
    def make(program):
        path, script = tmp_path / request.param, request.param == "net.pt"
        tv.save(program, path, output_format="torchscript" if script else "exported_program")
        alone = torch.jit.load(path) if script else torch.export.load(path).module()
        return program, tv.load(path), alone
    return make


def test_a_branch_on_a_size(reopened):
    model = Parity()
    *ours, alone = reopened(compiled(model, [rows(2, 4, 16, 4)]))
    for program in (*ours, alone):
        for batch in (2, 4, 16):
            x = torch.randn(batch, 4)
            assert_same(program(x), model(x))
    for program in ours:
        refuses(program, r"x.shape\[0\] is 5: .*compiled for x.shape\[0\] % 2 == 0",
                torch.randn(5, 4))
    with pytest.raises((AssertionError, RuntimeError, torch.jit.Error), match="% 2 == 0"):
        alone(torch.randn(5, 4))


def test_a_branch_on_two_sizes(tmp_path):
    model = Larger()
    inputs = {"x": rows(2, 4, 16, 4), "other": {"y": rows(2, 3, 16, 4)}}
    program = compiled(model, inputs)
    tv.save(program, tmp_path / "net.pt2")
    for each in (program, tv.load(tmp_path / "net.pt2")):
        for a, b in ((4, 3), (16, 2)):
            x, other = torch.randn(a, 4), {"y": torch.randn(b, 4)}
            assert_same(each(x=x, other=other), model(x, other=other))
        refuses(each, r"is 3.* is 4: the model takes another path", x=torch.randn(3, 4),
                other={"y": torch.randn(4, 4)})


def test_a_branch_inside_the_range():
    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2 if x.shape[0] > 5 else torch.relu(x) * 3

    program = compiled(Model(), [rows(2, 4, 16, 4)])
    for batch in (2, 5):
        x = torch.randn(batch, 4)
        assert_same(program(x), torch.relu(x) * 3)
    refuses(program, r"x.shape\[0\] is 6: .*x.shape\[0\] <= 5", torch.randn(6, 4))


def test_of_an_exported_program(tmp_path):
    exported = torch.export.export(Parity(), (torch.randn(4, 4),),
                                   dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(exported, tmp_path / "plain.pt2")
    for source in (exported, torch.export.load(tmp_path / "plain.pt2")):
        program = compiled(source, None)
        assert_same(program(torch.ones(6, 4)), torch.full((6, 4), 2.0))
        refuses(program, r"x.shape\[0\] % 2 == 0", torch.ones(5, 4))


def test_what_follows_from_a_view_and_rows_that_are_one():
    """Four rows are one group of four: PyTorch alone would refuse a size of 1 that it computed."""
    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x.reshape(-1, 4, 3)).sum(1)

    model = Model()
    program = compiled(model, [rows(4, 8, 16, 3)])
    for batch in (4, 8, 16):
        x = torch.randn(batch, 3)
        assert_same(program(x), model(x))
    refuses(program, r"x.shape\[0\] is 6", torch.randn(6, 3))


def test_sizes_that_have_to_be_equal_and_are_usually_not():
    """The usual sizes alone could not be traced together."""
    class Model(nn.Module):
        def forward(self, x, y):
            return torch.relu(x + y) @ x.mT

    model = Model()
    program = compiled(model, [rows(1, 4, 8, 3, 4), rows(2, 6, 16, 3, 4)])
    for batch in (2, 5, 8):
        x, y = torch.randn(batch, 3, 4), torch.randn(batch, 3, 4)
        assert_same(program(x, y), model(x, y))
    (engine,) = tv.engines(program)
    assert [(s["min"], s["max"]) for s in engine.info()["symbols"]] == [(2, 8)]
    for batch in (1, 9):
        refuses(program, f"got {batch}, want 2 to 8", *[torch.randn(batch, 3, 4)] * 2)


def test_of_engines_and_of_networks_by_hand():
    (engine,) = tv.engines(compiled(Parity(), [rows(2, 4, 16, 4)]))
    builder = tv.Builder()
    x = builder.input("x", (-1, 6))
    builder.output("y", builder.op("aten::relu", builder.op("aten::view", x, [-1, 4])))
    by_hand = builder.build([tv.Profile(x=((2, 6), (4, 6), (8, 6)))])
    for batch in (2, 8):
        x = torch.randn(batch, 4)
        assert_same(*engine.run([x]).values(), torch.relu(x) * 2)
        x = torch.randn(batch, 6)
        assert_same(by_hand.run([x])["y"], torch.relu(x.view(-1, 4)))
    refuses(engine.run, r"x.shape\[0\] is 5", [torch.randn(5, 4)])
    refuses(by_hand.run, r"x.shape\[0\] is 3", [torch.randn(3, 6)])


@pytest.mark.parametrize("nest", [
    lambda a, b: ((a, b), {}), lambda a, b: (([a, {"k": b}],), {}), lambda a, b: ((a,), {"k": b})])
def test_wherever_the_arguments_are(nest):
    class Model(nn.Module):
        def forward(self, *args, **kwargs):
            a, b = torch.utils._pytree.tree_leaves((args, kwargs))
            return torch.relu(a) * (2 if a.shape[0] > b.shape[0] else 3) + b.sum()

    args, kwargs = nest(rows(2, 4, 16, 4), rows(2, 3, 16, 4))
    program = compiled(Model(), list(args), kwarg_inputs=kwargs)
    args, kwargs = nest(torch.randn(4, 4), torch.randn(3, 4))
    assert_same(program(*args, **kwargs), Model()(*args, **kwargs))
    args, kwargs = nest(torch.randn(3, 4), torch.randn(4, 4))
    refuses(program, "takes another path", *args, **kwargs)


def test_engines_in_files_keep_conditions(tmp_path):
    def opened(program):
        (engine,) = tv.engines(program)
        engine.save(tmp_path / "net.vke")
        return tv.Engine.load(tmp_path / "net.vke")

    engine = opened(compiled(Parity(), [rows(2, 4, 16, 4)]))
    x = torch.randn(6, 4)
    (y,) = engine.run([x]).values()
    assert_same(y, Parity()(x))
    with pytest.raises(ValueError, match=r'"x" dimension 0: got 5; the model \(compiled for '
                                         r"x.shape\[0\] % 2 == 0\) wants .* multiple of 2, got 5"):
        engine.run([torch.randn(5, 4)])

    inputs = {"x": rows(2, 4, 16, 4), "other": {"y": rows(2, 3, 16, 4)}}
    engine = opened(compiled(Larger(), inputs))
    with pytest.raises(ValueError, match=r"dimension 0: got 3; .*compiled for .* got 3 and 5"):
        engine.run([torch.randn(3, 4) if b["name"] == "x" else torch.randn(4, 4)
                    for b in engine.info()["inputs"]])


def test_what_a_file_cannot_hold_is_said(tmp_path):
    class Either(nn.Module):
        def forward(self, x):
            return torch.relu(x) * (2 if x.shape[0] % 2 == 0 or x.shape[0] % 3 == 0 else 3)

    from torch_vulkan._base.stored_conditions import stored

    (engine,) = tv.engines(compiled(Either(), [rows(2, 5, 16, 4)]))
    # What was captured are two conditions, each of which a file can hold.
    info = engine._parts[0].info()
    conditions, lost = stored(engine._conditions, info["inputs"], info["symbols"])
    assert len(conditions) == 2 and not lost
    engine._conditions.trees[0] = __import__("ast").parse("flat[0].size()[0] / 2 == 2", mode="eval")
    with pytest.warns(UserWarning, match="does not hold that its sizes have to fulfil"):
        engine.save(tmp_path / "net.vke")
