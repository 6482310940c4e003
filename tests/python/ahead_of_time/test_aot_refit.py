"""tv.refit: other weights without a rebuild."""

import copy

import numpy
import pytest
import safetensors.torch
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from aot_helpers import network, rows
from helpers import assert_follows, assert_same, vulkan
from marks import slow_but, turns


def layers():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                         nn.Linear(8 * 36, 5)).eval()


@pytest.fixture
def program():
    torch.manual_seed(0)
    return tv.compile(layers(), [torch.randn(2, 3, 8, 8)], min_block_size=1)


def other():
    torch.manual_seed(1)
    model = layers()
    nn.init.uniform_(model[1].running_var, 0.5, 1.5)
    return model


def noise(like):
    return torch.rand_like(like) - 0.5


X = torch.randn(2, 3, 8, 8)


@turns(2)
@pytest.mark.parametrize("name", slow_but(
    ("ResNet-50", "BERT-base"), ["ResNet-50", "BERT-base", "GPT-2"]))
def test_every_weight_one_by_one(name):
    model, _, inputs = network(name)
    given = inputs(2)
    program = tv.compile(copy.deepcopy(model), given)
    built = len(compilations.compilations())
    addresses = {key: tensor.data_ptr() for key, tensor in program.state_dict().items()}
    torch.manual_seed(0)
    with torch.no_grad():
        want = model(**given)[0]
        for key, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not tensor.is_floating_point():
                continue
            scale, shift = 1 + 0.4 * noise(tensor), 0.2 * noise(tensor)  # results keep their size
            tensor.mul_(scale).add_(shift)
            tv.refit(program, {key: tensor})
            before, want = want, model(**given)[0]
            assert_follows(program(**given)[0], before, want, key)
    assert len(compilations.compilations()) == built
    assert addresses == {key: t.data_ptr() for key, t in program.state_dict().items()}, "in place"


@pytest.mark.parametrize("form", ["dict", "arrays", "module", "exported", "safetensors"])
def test_forms_of_weights(program, form, tmp_path):
    model = other()
    state = model.state_dict()
    if form == "arrays":
        weights = {name: tensor.numpy() for name, tensor in state.items()}
        assert isinstance(weights["0.weight"], numpy.ndarray)
    elif form == "exported":
        weights = torch.export.export(model, (X,))
    elif form == "safetensors":
        weights = tmp_path / "weights.safetensors"
        safetensors.torch.save_file(state, weights)
    else:
        weights = model if form == "module" else state
    before = program(X)
    tv.refit(program, weights)
    torch.testing.assert_close(program(X), model(X).detach())
    assert not torch.equal(program(X), before)
    assert len(compilations.compilations()) == 1


def test_what_is_not_named_stays(program):
    model = other()
    kept = program.get_parameter("0.weight").clone()
    tv.refit(program, {"4.weight": model[4].weight, "1.running_var": model[1].running_var})
    want = copy.deepcopy(model)
    want.load_state_dict(program.state_dict())
    torch.testing.assert_close(program(X), want(X).detach())
    assert_same(program.get_parameter("0.weight").detach(), kept)
    assert_same(program.get_parameter("4.weight").detach(), model[4].weight.detach())


@pytest.mark.parametrize("name,value,message", [
    ("4.wieght", torch.zeros(5, 288), "no weight '4.wieght'; did you mean '4.weight'"),
    ("4.weight", torch.zeros(5, 289), r"got torch.float32 \[5, 289\], want .*\[5, 288\]"),
    ("4.weight", torch.zeros(5, 288).half(), r"got torch.float16 .*want torch.float32"),
    ("4.weight", "zeros", r"'4.weight': got str, want a tensor"),
    ("4.weight", torch.empty(5, 288, device="meta"), "a tensor without data"),
    ("4.weight", torch.zeros(5, 288).to_sparse(), "want a dense one"),
    ("4.weight", None, r"'4.weight': got NoneType, want a tensor"),
])
def test_an_error_changes_nothing(program, name, value, message):
    state = copy.deepcopy(program.state_dict())
    before = program(X)
    with pytest.raises(ValueError, match=message):
        tv.refit(program, {"0.weight": torch.zeros(8, 3, 3, 3), name: value})
    assert_same([*program.state_dict().values()], [*state.values()])
    assert_same(program(X), before)


def test_an_error_in_a_file_changes_nothing(program, tmp_path):
    before = program(X)
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file({"0.weight": torch.zeros(8, 3, 3, 3), "4.bias": torch.zeros(6)},
                                path)
    with pytest.raises(ValueError, match=r"'4.bias': got torch.float32 \[6\], want .*\[5\]"):
        tv.refit(program, path)
    assert_same(program(X), before)


def test_an_error_of_the_device_changes_nothing(program, monkeypatch):
    before = program(X)
    monkeypatch.setattr(type(program), "weights_of",
                        lambda self, name: (_ for _ in ()).throw(RuntimeError("no memory")))
    with pytest.raises(RuntimeError, match="no memory"):
        tv.refit(program, other())
    monkeypatch.undo()
    assert_same(program(X), before)


def test_an_error_of_the_second_engine_changes_nothing(monkeypatch):
    """The first has made its packed forms of the new weights by then."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 5)).eval()
    x = torch.randn(3, 8)
    program = tv.compile(model, [x], min_block_size=1,
                         torch_executed_ops=[torch.ops.aten.softmax.int, "aten::_softmax"])
    assert len(tv.engines(program)) == 2
    before, second = program(x), [*program.engine_objects()][1]
    weights_of = type(program).weights_of

    def fails(self, name):
        if name == second:
            raise RuntimeError("no memory")
        return weights_of(self, name)

    monkeypatch.setattr(type(program), "weights_of", fails)
    with pytest.raises(RuntimeError, match="no memory"):
        tv.refit(program, {"0.weight": torch.ones(8, 8), "2.weight": torch.ones(5, 8)})
    monkeypatch.undo()
    torch.testing.assert_close(program(x), before, rtol=0, atol=0)
    new = {"0.weight": torch.rand(8, 8), "2.weight": torch.rand(5, 8)}
    tv.refit(program, new)
    model.load_state_dict(new, strict=False)
    assert_same(program(x), model(x).detach())


def test_every_profile_has_the_new_weights():
    torch.manual_seed(0)
    model = layers()
    few, many = ([(n, 3, 8, 8) for n in sizes] for sizes in ((1, 1, 2), (3, 8, 8)))
    program = tv.compile(copy.deepcopy(model), [rows(1, 4, 8, 3, 8, 8)], min_block_size=1,
                         profiles=[tv.Profile(input=few), tv.Profile(input=many)])
    x = torch.randn(8, 3, 8, 8)
    program(x)  # the other profile has no call yet
    for seed in range(2):
        torch.manual_seed(seed + 2)
        model.load_state_dict(layers().state_dict())
        tv.refit(program, model)
        for batch in (8, 1):
            torch.testing.assert_close(program(x[:batch]), model(x[:batch]).detach())


def test_weights_that_are_computed_with_in_half():
    torch.manual_seed(0)
    model = layers()
    program = tv.compile(copy.deepcopy(model), [X], min_block_size=1,
                         enabled_precisions={torch.float32, torch.float16})
    tv.refit(program, other())
    want = other()(X).detach()
    torch.testing.assert_close(program(X), want, rtol=1e-2, atol=1e-2)
    assert (model(X) - want).abs().max() > 0.1
    assert program.get_parameter("0.weight").dtype == torch.float32


def test_tied_weights():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    program = tv.compile(model, [torch.randn(3, 6)], min_block_size=1)
    x, new = torch.randn(3, 6), torch.randn(6, 6)
    for weights in ({"0.weight": new}, {"2.weight": new * 2},
                    {"0.weight": new, "2.weight": new.clone()}):
        tv.refit(program, weights)
        assert_same(program(x), model(x).detach())
    with pytest.raises(ValueError, match="one tensor with another"):
        tv.refit(program, {"0.weight": new, "2.weight": new + 1})
    assert_same(program(x), model(x).detach())


def test_weights_change_places():
    """Each is given the other's value, as a view of it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    x = torch.randn(3, 6)
    program = tv.compile(copy.deepcopy(model), [x], min_block_size=1)
    program(x)
    first, second = (program.get_parameter(f"{i}.weight") for i in (0, 2))
    tv.refit(program, {"0.weight": second.detach(), "2.weight": first.detach()})
    model[0].weight, model[2].weight = model[2].weight, model[0].weight
    assert_same(program(x), model(x).detach())


def test_weights_that_are_not_dense():
    """A transposed parameter, and transposed values for others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    model[0].weight = nn.Parameter(torch.randn(6, 6).t())
    x = torch.randn(3, 6)
    program = tv.compile(copy.deepcopy(model), [x], min_block_size=1)
    new = {"0.weight": torch.randn(6, 6), "2.weight": torch.randn(6, 6).t()}
    tv.refit(program, new)
    model.load_state_dict(new, strict=False)
    assert_same(program(x), model(x).detach())


def test_writes_that_torch_cannot_see(program):
    weight = program.get_parameter("4.weight")
    program(X)
    weight.data.zero_()
    tv.refit(program, program.state_dict())
    want = program.get_parameter("4.bias").detach().expand(2, 5)
    torch.testing.assert_close(program(X), want)


def test_a_module_behind_torch_compile():
    model = layers().requires_grad_(False)
    fast = vulkan(model)
    fast(X)
    model[4].weight.data.zero_()
    tv.refit(fast, {"4.weight": model[4].weight})
    assert_same(fast(X), model(X))


def test_a_loaded_program(program, tmp_path):
    model = other()
    for output_format, name in (("exported_program", "net.pt2"), ("torchscript", "net.pt")):
        tv.save(program, tmp_path / name, output_format=output_format)
        again = tv.load(tmp_path / name)
        tv.refit(again, model)
        torch.testing.assert_close(again(X), model(X).detach())


def test_engines_know_the_weights_by_name(program, tmp_path):
    (engine,) = tv.engines(program)
    assert {w["name"] for w in engine.info()["weights"]} == {
        name for name in program.state_dict() if "num_batches" not in name}
    engine.save(tmp_path / "net.vke")
    alone = tv.Engine.load(tmp_path / "net.vke")
    assert_same([*alone.run({"input": X}).values()], program(X))
    model = other()
    alone.refit({name: tensor for name, tensor in model.state_dict().items()
                 if "num_batches" not in name})
    torch.testing.assert_close([*alone.run({"input": X}).values()][0], model(X).detach())
    assert not torch.equal(program(X), [*alone.run({"input": X}).values()][0])


def test_refused(program, tmp_path):
    frozen = tv.compile(layers(), [X], min_block_size=1, immutable_weights=True)
    with pytest.raises(ValueError, match="immutable_weights"):
        tv.refit(frozen, other())
    with pytest.raises(ValueError, match="want a dict, a module"):
        tv.refit(program, [1, 2])
    with pytest.raises(ValueError, match="want what tv.compile"):
        tv.refit("net.pt2", other())
    with pytest.raises(FileNotFoundError):
        tv.refit(program, tmp_path / "missing.safetensors")
    with pytest.raises(IsADirectoryError):
        tv.refit(program, tmp_path)
    (tmp_path / "bad.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match=r"no \.safetensors file"):
        tv.refit(program, tmp_path / "bad.safetensors")


class ComplexPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))
        self.register_buffer("c", torch.randn(4, dtype=torch.complex64))

    def forward(self, x):
        return x * self.w + torch.view_as_real(self.c).sum()


def test_parts_of_complex_weights(tmp_path):
    first, x = ComplexPart().eval(), torch.randn(4)
    program = tv.compile(copy.deepcopy(first), [x], min_block_size=1)
    tv.save(program, tmp_path / "net.pt2")
    for compiled in (program, tv.load(tmp_path / "net.pt2")):
        model = copy.deepcopy(first)
        for weights in ({"w": torch.randn(4)}, {"c": torch.randn(4, dtype=torch.complex64)},
                        {"w": torch.randn(4), "c": torch.randn(4, dtype=torch.complex64)}):
            tv.refit(compiled, weights)
            model.load_state_dict(weights, strict=False)
            assert_same(compiled(x), model(x))
        (engine,) = tv.engines(compiled)
        assert_same([*engine.run([x]).values()], [model(x)])
