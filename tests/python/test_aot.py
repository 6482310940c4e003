"""Ahead of time: compile, call, save, load in another process."""

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import assert_same

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from networks import NETWORKS  # noqa: E402


def rows(low, opt, high, *rest, dtype=torch.float32):
    """An Input with a dynamic first dimension."""
    return tv.Input(min_shape=(low, *rest), opt_shape=(opt, *rest), max_shape=(high, *rest),
                    dtype=dtype)


def compiled(model, inputs, **settings):
    return tv.compile(model, inputs, min_block_size=1, **settings)


def network(name):
    """A reduced network, compiled for batches of 1 to 4, and inputs of a batch size."""
    net = NETWORKS[name]
    model = net.make(True)
    inputs = {key: rows(1, 2, 4, *value.shape[1:], dtype=value.dtype)
              for key, value in net.inputs(2, True, 0).items()}
    return model, tv.compile(model, inputs), lambda batch: net.inputs(batch, True, batch)


def close(got, want):
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()


def python(program, *arguments, **environment):
    """Runs a program in a process of its own; returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], text=True,
                          capture_output=True, env={**os.environ, **environment}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Nested(nn.Module):
    """Keyword inputs, nested structures, results of several kinds, a constant, tied weights."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.randn(8), persistent=False)

    def forward(self, x, pair, *, extra):
        y = self.second(torch.relu(self.first(x))) + self.shift
        z = torch.cat([pair[0], pair[1]["more"]]) * extra["scale"] + torch.tensor([1.0, 2.0])
        return {"y": y, "rest": [z, (x.shape[0], torch.softmax(y, -1))]}


def nested_inputs(batch):
    pair = (torch.randn(3, 2), {"more": torch.randn(5, 2)})
    return (torch.randn(batch, 8), pair), {"extra": {"scale": torch.randn(8, 2)}}


# --- compile and call ---


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


def test_native_parts_stay():
    class Model(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(torch.relu(x) + 3 * torch.eye(4)) * 2 + x

    model = Model()
    program = compiled(model, [rows(1, 2, 4, 4, 4)])
    (record,) = compilations.compilations()
    assert record.native and record.engines
    for batch in (1, 3):
        x = torch.randn(batch, 4, 4)
        torch.testing.assert_close(program(x), model(x))


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
    failures = []

    def work(i):
        for _ in range(5):
            if not torch.equal(program(**given[i])[0], want[i]):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- files ---

RUN = """
import sys, torch, torch_vulkan as tv
from torch_vulkan import compilations, engine_call
def never(*args, **kwargs):
    raise SystemExit("something was built")
engine_call.compile_graph = never
path, cases, how = sys.argv[1:4]
program = tv.load(path) if how == "tv" else torch.export.load(path).module()
for args, kwargs, want in torch.load(cases):
    torch.testing.assert_close(program(*args, **kwargs), want, rtol=0, atol=0)
assert not compilations.compilations()
print("same")
"""


def saved(program, cases, folder, **options):
    """Writes the program and what it makes of some arguments."""
    path, expected = folder / "net.pt2", folder / "cases"
    tv.save(program, path, **options)
    torch.save([(args, kwargs, program(*args, **kwargs)) for args, kwargs in cases], expected)
    return path, expected


@pytest.mark.parametrize("how", ["tv", "torch"])
@pytest.mark.parametrize("name", ["ResNet-50", "GPT-2"])
def test_saved_networks_run_in_another_process(name, how, tmp_path):
    _, program, inputs = network(name)
    path, cases = saved(program, [((), inputs(batch)) for batch in (1, 2, 4)], tmp_path)
    assert "same" in python(RUN, path, cases, how)


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
            self.a, self.b = nn.Linear(512, 512), nn.Linear(512, 512)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    model = Tied()
    tv.save(compiled(model, [torch.randn(2, 512)]), tmp_path / "net.pt2")
    assert (tmp_path / "net.pt2").stat().st_size < 1.7 * model.a.weight.nbytes
    program = tv.load(tmp_path / "net.pt2")
    assert program.get_parameter("a.weight") is program.get_parameter("b.weight")
    x = torch.randn(2, 512)
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


@pytest.mark.parametrize("how", ["tv", "torch"])
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base, mask", "GPT-2"])
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


def test_torchscript_elsewhere_builds_again(device, tmp_path):
    if device.type != "cpu":
        pytest.skip("lavapipe can be told to be another device")
    _, program, inputs = network("ResNet-50")
    path, cases = saved(program, [((), inputs(batch)) for batch in (1, 4)], tmp_path,
                        output_format="torchscript")
    printed = python(ELSEWHERE, path, cases, LP_NATIVE_VECTOR_WIDTH="128")
    assert printed.count("close") == 2 and "Its engines are built again" in printed
