"""Ahead of time: compile, call, and what a torch module can do."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from aot_helpers import Nested, close, compiled, nested_inputs, network, rows
from helpers import assert_same, in_threads
from marks import turns

# --- compile and call ---


@turns(3)
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base, mask", "GPT-2"])
def test_networks_at_every_batch_of_the_range(name):
    model, program, inputs = network(name)
    built = len(compilations.compilations())
    for batch in (2, 1, 4, 3):
        given = inputs(batch)
        with torch.no_grad():
            close(program(**given)[0], model(**given)[0])
    assert len(compilations.compilations()) == built == 1
    assert len(tv.engines(program)) == 1


def test_nested_keyword_inputs():
    model = Nested().eval()
    args, kwargs = nested_inputs(3)
    program = compiled(model, [rows(1, 3, 9, 8), args[1]], kwarg_inputs=kwargs)
    for batch in (1, 3, 9):
        args, kwargs = nested_inputs(batch)
        with torch.no_grad():
            assert_same(program(*args, **kwargs), model(*args, **kwargs))
            assert_same(program(pair=args[1], x=args[0], **kwargs), model(*args, **kwargs))


def test_compile_an_exported_program():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU()).eval()
    x = torch.randn(4, 8)
    exported = torch.export.export(
        model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=16)},))
    program = tv.compile(exported, min_block_size=1)
    for batch in (1, 4, 16):
        x = torch.randn(batch, 8)
        assert_same(program(x), model(x).detach())
    with pytest.raises(ValueError, match="got 17, want 1 to 16"):
        program(torch.randn(17, 8))


def test_several_dynamic_dimensions_and_equal_ones():
    def function(x, y):
        return torch.relu(x + y).transpose(1, 2) @ x

    class Model(nn.Module):
        def forward(self, x, y):
            return function(x, y)

    shape = {"min_shape": (1, 2, 4), "opt_shape": (2, 5, 4), "max_shape": (6, 9, 4)}
    program = compiled(Model(), [tv.Input(**shape, name="left"), tv.Input(**shape)])
    for a, b in ((1, 2), (2, 5), (6, 9), (3, 4)):
        x, y = torch.randn(a, b, 4), torch.randn(a, b, 4)
        assert_same(program(x, y), function(x, y))
    with pytest.raises(ValueError, match=r"'y' dimension 1: got 4, want 3, as input 'left' "
                                         "dimension 1 says"):
        program(torch.randn(2, 3, 4), torch.randn(2, 4, 4))
    with pytest.raises(ValueError, match="'left' dimension 1: got 10, want 2 to 9"):
        program(torch.randn(2, 10, 4), torch.randn(2, 10, 4))


@pytest.mark.parametrize("opt", [1, 8])
def test_one_row_whatever_the_usual_size(opt):
    model = nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6)).eval()
    program = compiled(model, [rows(1, opt, 8, 8)])
    (engine,) = tv.engines(program)
    (symbol,) = engine.info()["symbols"]
    assert (symbol["min"], symbol["opt"], symbol["max"]) == (1, opt, 8)
    for batch in (1, 8):
        x = torch.randn(batch, 8)
        assert_same(program(x), model(x).detach())


@pytest.mark.parametrize("bad,message", [
    (torch.randn(4, 9), "dimension 1: got 9, want 8"),
    (torch.randn(17, 8), "dimension 0: got 17, want 2 to 16"),
    (torch.randn(1, 8), "dimension 0: got 1, want 2 to 16"),
    (torch.randn(8), "got 1 dimensions, want 2"),
    (torch.randn(4, 8).double(), "got torch.float64, want a tensor of torch.float32"),
    (torch.randn(4, 8).to_sparse(), "got torch.sparse_coo, want a tensor of torch.float32"),
    ("text", "got str"),
])
def test_bad_arguments(bad, message):
    program = compiled(nn.Linear(8, 3), [rows(2, 4, 16, 8)])
    with pytest.raises(ValueError, match=f"input 'input'.*{message}"):
        program(bad)
    with pytest.raises(ValueError, match="arguments"):
        program(torch.randn(4, 8), torch.randn(4, 8))
    with pytest.raises(ValueError, match="arguments"):
        program(other=torch.randn(4, 8))


def test_plain_values_are_part_of_the_program():
    class Model(nn.Module):
        def forward(self, x, times):
            return torch.relu(x) * times

    program = compiled(Model(), [torch.randn(3), 2])
    x = torch.randn(3)
    assert_same(program(x, 2), torch.relu(x) * 2)
    with pytest.raises(ValueError, match="'times': got 3, the program was compiled for 2"):
        program(x, 3)


def test_native_parts_stay(tmp_path):
    class Model(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(torch.relu(x) + 3 * torch.eye(4)) * 2 + x

    model = Model()
    program = compiled(model, [rows(1, 2, 4, 4, 4)])
    (record,) = compilations.compilations()
    assert record.native and record.engines
    tv.save(program, tmp_path / "net.pt2")
    for each in (program, tv.load(tmp_path / "net.pt2")):
        targets = {node.target for node in each.exported_program().graph.nodes}
        assert torch.ops.torch_vulkan.execute.default in targets
        assert torch.ops.aten.linalg_matrix_exp.default in targets
        for batch in (1, 3):
            x = torch.randn(batch, 4, 4)
            torch.testing.assert_close(each(x), model(x))


def test_buffers_that_change():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total += x.sum(0)
            return torch.relu(x) + self.total

    model = Counter()
    program = compiled(copy.deepcopy(model), [torch.randn(2, 3)])
    for _ in range(3):
        x = torch.randn(2, 3)
        assert_same(program(x), model(x))
    assert_same(program.state_dict()["total"], model.total)


def test_what_cannot_be_exported_says_so():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(tv.UnsupportedError, match="torch.export cannot capture Branch"):
        compiled(Branch(), [torch.randn(3)])


# --- a program is a torch module ---


def test_state_dict_is_the_modules_own():
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6)).eval()
    program = compiled(model, [torch.randn(4, 8)])
    assert [*program.state_dict()] == [*model.state_dict()]
    assert program.get_parameter("0.weight") is model[0].weight
    x = torch.randn(4, 8)
    with torch.no_grad():
        model[0].weight.mul_(2)
        assert_same(program(x), model(x))
        other = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6)).eval()
        program.load_state_dict(other.state_dict())
        assert_same(program(x), other(x))


def test_deepcopy_has_weights_of_its_own():
    model = nn.Linear(8, 6)
    program = compiled(model, [torch.randn(4, 8)])
    twin = copy.deepcopy(program)
    x = torch.randn(4, 8)
    want = program(x)
    with torch.no_grad():
        twin.get_parameter("weight").zero_()
    assert_same(program(x), want)
    assert_same(twin(x), model.bias.detach().expand(4, 6).contiguous())
    assert twin.engine_objects() == program.engine_objects()


def test_to():
    program = compiled(nn.Linear(8, 6), [torch.randn(4, 8)])
    assert program.to("cpu") is program and program.float() is program
    for change in (program.half, program.double, lambda: program.to(torch.bfloat16)):
        with pytest.raises(ValueError, match="keeps its dtypes"):
            change()
    assert program(torch.randn(4, 8)).dtype == torch.float32
    with pytest.raises(NotImplementedError, match="tv.refit"):
        program.train()
    assert program.eval() is program


def test_threads_share_a_program():
    model, program, inputs = network("ResNet-50")
    given = [inputs(batch) for batch in (1, 2, 3, 4)]
    want = [program(**each)[0] for each in given]

    def work(i):
        for _ in range(5):
            assert torch.equal(program(**given[i])[0], want[i])

    in_threads(work)
