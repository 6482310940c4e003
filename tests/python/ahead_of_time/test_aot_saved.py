"""Programs as files: saved, loaded in another process, built again elsewhere."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from aot_helpers import RUN, Nested, compiled, nested_inputs, network, python, rows, saved
from helpers import assert_same
from marks import slow_but, turns

LOADED = [(name, how) for name in ("ResNet-50", "GPT-2", "BERT-base, mask")
          for how in ("tv", "torch")]


@turns(2)
@pytest.mark.parametrize("name, how", slow_but(
    [("ResNet-50", "tv"), ("GPT-2", "tv")], LOADED, rows=True))
def test_saved_networks_run_in_another_process(name, how, tmp_path):
    _, program, inputs = network(name)
    path, cases = saved(program, [((), inputs(batch)) for batch in (1, 2, 4)], tmp_path)
    assert "same" in python(RUN, path, cases, how)


@turns(2)
@pytest.mark.parametrize("how", ["tv", "torch"])
def test_saved_nested_program(how, tmp_path):
    torch.manual_seed(0)
    args, kwargs = nested_inputs(3)
    program = compiled(Nested().eval(), [rows(1, 3, 9, 8), args[1]], kwarg_inputs=kwargs)
    path, cases = saved(program, [nested_inputs(batch) for batch in (1, 9)], tmp_path)
    assert "same" in python(RUN, path, cases, how)


def test_weights_are_stored_once(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(64, 4096), nn.Linear(64, 4096)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(x) * torch.relu(self.a(x))

    model = Tied()
    tv.save(compiled(model, [torch.randn(2, 64)]), tmp_path / "net.pt2")
    assert (tmp_path / "net.pt2").stat().st_size < 1.7 * model.a.weight.nbytes
    program = tv.load(tmp_path / "net.pt2")
    assert program.get_parameter("a.weight") is program.get_parameter("b.weight")
    x = torch.randn(2, 64)
    assert_same(program(x), model(x).detach())
    with torch.no_grad():
        for weights in (model.a.weight, program.get_parameter("a.weight")):
            weights.mul_(0.5)
    assert_same(program(x), model(x).detach())


def test_save_keeps_the_weights_of_now(tmp_path):
    model = nn.Linear(8, 6)
    program = compiled(model, [torch.randn(4, 8)])
    with torch.no_grad():
        model.weight.copy_(torch.randn(6, 8))
    tv.save(program, tmp_path / "net.pt2")
    again = tv.load(tmp_path / "net.pt2")
    x = torch.randn(4, 8)
    assert_same(again(x), model(x).detach())
    tv.save(again, tmp_path / "net.pt2")
    assert_same(tv.load(tmp_path / "net.pt2")(x), model(x).detach())


ELSEWHERE = """
import sys, warnings, torch, torch_vulkan as tv
path, cases = sys.argv[1:3]
try:
    tv.load(path, on_mismatch="refuse")
except ValueError as error:
    print("refused:", error)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    program = tv.load(path)
print([str(w.message) for w in seen if "torch_vulkan" in str(w.message)])
for args, kwargs, want in torch.load(cases):
    torch.testing.assert_close(program(*args, **kwargs), want)
    print("close")
tv.save(program, path)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    tv.load(path)
print("saved for this device")
"""


@turns(3, group="stores")
def test_another_kind_of_device_builds_again(device, tmp_path):
    if device.type != "cpu":
        pytest.skip("lavapipe can be told to be another device")
    model = Nested().eval()
    args, kwargs = nested_inputs(3)
    program = compiled(model, [rows(1, 3, 9, 8), args[1]], kwarg_inputs=kwargs)
    path, cases = saved(program, [nested_inputs(batch) for batch in (1, 9)], tmp_path)
    printed = python(ELSEWHERE, path, cases, LP_NATIVE_VECTOR_WIDTH="128")
    assert printed.count("close") == 2 and "saved for this device" in printed
    for line in ("refused:", "Its engines are built again"):
        assert line in printed
    assert printed.count("128 bits") == 2 and printed.count(device.name) == 2, "both sides, twice"


def test_a_program_can_be_traced_again():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU()).eval()
    program = compiled(model, [rows(1, 4, 16, 8)])
    module = program.exported_program().module()
    rows_ = torch.export.Dim.DYNAMIC(min=1, max=16)
    again = torch.export.export(module, (torch.randn(4, 8),), dynamic_shapes=({0: rows_},))
    assert torch.ops.torch_vulkan.execute.default in {node.target for node in again.graph.nodes}
    for batch in (2, 16):
        x = torch.randn(batch, 8)
        assert_same(again.module()(x).detach(), model(x).detach())
        with torch.no_grad():
            assert_same(torch.compile(module, backend="aot_eager")(x), model(x))


# --- TorchScript ---

RUN_SCRIPT = RUN.replace("torch.export.load(path).module()", "torch.jit.load(path)")


@turns(3)
@pytest.mark.parametrize("name, how", slow_but(
    [("ResNet-50", "tv"), ("GPT-2", "tv"), ("BERT-base, mask", "torch")], LOADED, rows=True))
def test_torchscript_networks(name, how, tmp_path):
    _, program, inputs = network(name)
    path, cases = saved(program, [((), inputs(batch)) for batch in (1, 2, 4)], tmp_path,
                        output_format="torchscript")
    assert "same" in python(RUN_SCRIPT, path, cases, how)


class Pieces(nn.Module):
    """Native parts with sizes, constants, lists with holes and results in tuples."""

    def __init__(self):
        super().__init__()
        self.add_module("0", nn.Linear(4, 4))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x, pair, index):
        y = torch.relu(getattr(self, "0")(x)) + 3 * torch.eye(4)[0]
        self.seen += y.sum((0, 1))
        z = torch.linalg.matrix_power(y.mT @ y, 2).reshape(x.shape[0], -1)
        z = torch.clamp(z, max=float("inf"))[:, index]
        return y, (z + pair[0].sum(), [pair[1][0] * 2, x.new_zeros(x.shape[0] * 2, 3)])


def test_torchscript_of_many_pieces(tmp_path):
    def arguments(batch):
        return (torch.randn(batch, 3, 4), (torch.randn(5), (torch.randn(2, 7),)),
                torch.tensor([1, 3]))

    model = Pieces()
    args = arguments(2)
    program = tv.compile(copy.deepcopy(model), [rows(1, 2, 6, 3, 4), args[1], args[2]],
                         min_block_size=1, torch_executed_ops=["aten::relu", "aten::mul"])
    assert compilations.compilations()[0].native
    tv.save(program, tmp_path / "net.pt", output_format="torchscript")
    script = torch.jit.load(tmp_path / "net.pt")
    for batch in (1, 2, 6):
        args = arguments(batch)
        with torch.no_grad():
            want = model(*args)
        for got in (script(*args), program(*args)):
            for a, b in zip(torch.utils._pytree.tree_leaves(got),
                            torch.utils._pytree.tree_leaves(want), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(script.state_dict()["seen"], model.seen)
    with pytest.raises(RuntimeError, match="got 7, want 1 to 6"):
        script(*arguments(7))


@turns(3, group="stores")
def test_torchscript_stores_shared_weights_once(tmp_path):
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    model[2].weight = model[0].weight
    program = compiled(model, [torch.randn(2, 512)])
    tv.save(program, tmp_path / "net.pt", output_format="torchscript")
    assert (tmp_path / "net.pt").stat().st_size < 1.7 * model[0].weight.nbytes
    again = tv.load(tmp_path / "net.pt")
    assert [*again.state_dict()] == [*program.state_dict()]
    assert again.get_parameter("0.weight") is again.get_parameter("2.weight")


def test_torchscript_takes_tensors_and_tuples(tmp_path):
    args, kwargs = nested_inputs(3)
    program = compiled(Nested().eval(), [args[0], args[1]], kwarg_inputs=kwargs)
    with pytest.raises(ValueError, match="output_format='exported_program'"):
        tv.save(program, tmp_path / "net.pt", output_format="torchscript")
    assert not [*tmp_path.iterdir()]


@turns(3, group="stores")
def test_torchscript_elsewhere_builds_again(device, tmp_path):
    if device.type != "cpu":
        pytest.skip("lavapipe can be told to be another device")
    _, program, inputs = network("ResNet-50")
    path, cases = saved(program, [((), inputs(batch)) for batch in (1, 4)], tmp_path,
                        output_format="torchscript")
    printed = python(ELSEWHERE, path, cases, LP_NATIVE_VECTOR_WIDTH="128")
    assert printed.count("close") == 2 and "Its engines are built again" in printed
