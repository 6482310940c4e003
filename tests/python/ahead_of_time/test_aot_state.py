"""Programs that change buffers and arguments: in place where one engine does it, and once whatever
happens."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import torch_vulkan as tv
from torch_vulkan._fx import engine_call
from torch_vulkan._program.program import Program
from torch_vulkan._torch import compat

from aot_helpers import compiled, python, rows
from helpers import assert_same
from marks import turns

WRITTEN = torch.ops.torch_vulkan.execute_written.default


class Counter(nn.Module):
    """A buffer, a counter and an argument that change."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 3))
        self.register_buffer("calls", torch.tensor(0))
        self.scale = nn.Linear(3, 3)

    def forward(self, x, seen):
        y = self.scale(x)
        self.total.add_(y)
        self.calls.add_(1)
        seen[1:3] = torch.relu(y[1:3])
        return y * 2 + self.total


def arguments():
    return torch.randn(4, 3), torch.randn(4, 3)


def buffers(module) -> list:
    return [tensor for _, tensor in sorted(module.named_buffers())]


def writes(program) -> int:
    graph = program.exported_program().graph
    return sum(len(node.args[1]) for node in graph.nodes if node.target is WRITTEN)


def calls_alike(program, model, calls=3):
    for _ in range(calls):
        x, seen = arguments()
        other = seen.clone()
        with torch.no_grad():
            want = model(x, other)
            got = program(x, seen)
        assert_same(got, want)
        assert_same(seen, other)
        assert_same(buffers(program), buffers(model))


def both():
    model = Counter()
    return compiled(copy.deepcopy(model), [*arguments()]), model


def test_buffers_and_arguments_are_written_in_place():
    program, model = both()
    assert writes(program) == 3
    calls_alike(program, model)


def test_captured_and_traced_again():
    """Functional graphs have no operator that writes; what they make of it is the same."""
    program, model = both()
    exported = torch.export.export(copy.deepcopy(program), arguments())
    functional = exported.run_decompositions({})
    targets = [node.target for node in functional.graph.nodes]
    assert WRITTEN not in targets
    calls_alike(exported.module(), model, 2)
    calls_alike(functional.module(), model, 2)  # of the same buffers
    twin, model = both()
    calls_alike(torch.compile(twin, backend="aot_eager"), model)
    twin, model = both()
    x, seen = arguments()
    traced = torch.jit.trace(twin, (x, seen.clone()), check_trace=False)
    with torch.no_grad():
        model(x, seen)  # tracing is a call
    calls_alike(traced, model)


class Twice(nn.Module):
    """Two engines, and PyTorch between them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(4, 4))
        self.register_buffer("second", torch.zeros(4, 4))

    def forward(self, x):
        self.first.add_(x)
        y = torch.linalg.matrix_exp(self.first * 0.1)
        self.second.add_(y)
        return torch.relu(self.second) + 1


class Refuses(TorchDispatchMode):
    """The last of so many engines refuses the sizes of each call, when those before it have run."""

    def __init__(self, engines, error=NotImplementedError):
        super().__init__()
        self.engines, self.ran, self.error = engines, [], error

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "torch_vulkan":
            self.ran.append(func)
            if len(self.ran) % self.engines == 0:
                raise self.error("sizes that kernels cannot count")
        return func(*args, **(kwargs or {}))


def test_every_engine_writes():
    """Where an engine refuses its sizes PyTorch computes all of it, from the state before: buffers
    of both engines change once."""
    model = Twice()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    assert len(program.engine_objects()) == 2 and writes(program) == 2
    for refuses in (True, False, False):
        x = torch.randn(4, 4)
        want = model(x)
        if refuses:
            with Refuses(2) as mode, pytest.warns(UserWarning, match="runs natively"):
                got = program(x)
            assert len(mode.ran) == 2
        else:
            got = program(x)
        assert_same(got, want)
        assert_same(buffers(program), buffers(model))


def test_what_was_written_before_a_failure():
    """Of sizes that were taken before, nothing is copied, so nothing is computed again."""
    model = Twice()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    program(torch.randn(4, 4))
    with Refuses(2), pytest.raises(RuntimeError, match="may hold a part of the result: first"):
        program(torch.randn(4, 4))


def test_a_note_says_what_may_be_written():
    """Whatever the error is; and none where the state is as it was."""
    program = compiled(Twice(), [torch.randn(4, 4)])
    for calls in range(2):
        before = program.get_buffer("first").clone()
        with Refuses(2, IndexError), pytest.raises(IndexError) as found:
            program(torch.randn(4, 4))
        notes = getattr(found.value, "__notes__", [])
        if calls == 0:
            assert not notes
            assert_same(program.get_buffer("first"), before)
            program(torch.randn(4, 4))
        else:
            assert [note.split(": ")[-1] for note in notes] == ["first"]


def test_an_engine_that_was_replaced_may_refuse_what_others_took():
    """The first call after that copies again, so it can be computed natively."""
    model = Twice()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    x = torch.randn(4, 4)
    assert_same(program(x), model(x))
    for engine in program.engine_objects().values():
        engine.replace(engine.vke().clone())
        with Refuses(2), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(program(x), model(x))
        assert_same(buffers(program), buffers(model))
        assert_same(program(x), model(x))
        with Refuses(2), pytest.raises(RuntimeError, match="may hold a part"):
            program(x)
        program.load_state_dict(model.state_dict())


class Counted(nn.Module):
    """Sizes that are known only when the graph runs, behind an early write."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(4, 4))
        self.register_buffer("second", torch.zeros(4))

    def forward(self, x):
        self.first.add_(x)
        found = torch.nonzero(self.first).float()
        self.second.add_(found.sum() * 2)
        return torch.relu(found * 2) + self.second.sum()


def test_engines_take_no_sizes_that_depend_on_data():
    """Else a later call of the same sizes might be refused behind a write."""
    model = Counted()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    assert len(program.engine_objects()) == 2 and writes(program) == 2
    for node in program.exported_program().graph.nodes:
        if node.target is WRITTEN:
            assert not any(compat.depends_on_data(n.meta["val"]) for n in node.all_input_nodes
                           if isinstance(n.meta["val"], torch.Tensor))
    for x in (torch.randn(4, 4), -model.first, torch.eye(4)):
        assert_same(program(x), model(x))
        assert_same(buffers(program), buffers(model))


def test_state_that_shares_memory():
    """What engines behind a write read is what was there before the call."""
    model = Twice()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    for _ in range(3):
        shared = program.get_buffer("first")
        want = model(shared.clone())
        assert_same(program(shared), want)
        assert_same(buffers(program), buffers(model))


class Shows(Twice):
    """Results that are state, and views of it."""

    def forward(self, x):
        last = super().forward(x)
        return last, self.first, self.first.t(), self.first[1:, 2]


@pytest.mark.parametrize("strides", [(4, 1), (1, 4), (9, 2)])
def test_results_show_the_state_though_it_shares_memory(strides):
    model = Shows()
    program = compiled(copy.deepcopy(model), [torch.randn(4, 4)])
    program._buffers["first"] = torch.zeros(40)[3:].as_strided((4, 4), strides)
    state = program.get_buffer("first")
    for given in (torch.randn(4, 4), state):
        want = model(given.clone())
        got = program(given)
        torch.testing.assert_close(got, want)
        assert got[1] is state
        state.mul_(2)
        torch.testing.assert_close(got[1:], tuple(value * 2 for value in want[1:]))
        model.first.mul_(2)  # what `want` shows


class Handed(nn.Module):
    """State that one engine writes and another reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(16, 4))

    def forward(self, x, at):
        self.total[at] = x * 2
        y = torch.linalg.matrix_exp(x.t() @ x * 0.1)
        return torch.relu(self.total @ y) + 1


@pytest.mark.parametrize("fails", [False, True])
def test_engines_behind_read_what_was_written(fails, monkeypatch):
    model = Handed()
    if fails:  # the first engine is not built: its write is the program's
        build = engine_call.build

        def refused(name, *rest):
            if name == "engine_0":
                raise ValueError("refused")
            return build(name, *rest)

        monkeypatch.setattr(engine_call, "build", refused)
    x, at = torch.randn(4, 4), torch.tensor([3, 0, 9, 12])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = compiled(copy.deepcopy(model), [x, at])
    assert writes(program) == (not fails)
    if not fails:
        first = next(iter(tv.engines(program)))
        assert all(output["shape"] != [16, 4] for output in first.info()["outputs"])
    for _ in range(3):
        x = torch.randn(4, 4)
        assert_same(program(x, at), model(x, at))
        assert_same(buffers(program), buffers(model))
        at = (at + 1) % 16


def test_what_is_computed_again_is_written_once():
    program, model = both()
    calls_alike(program, model, 1)
    with Refuses(1) as mode, pytest.warns(UserWarning, match="runs natively"):
        calls_alike(program, model, 2)
    assert mode.ran == [WRITTEN] * 2
    calls_alike(program, model, 1)


def test_memory_that_engines_cannot_write():
    """Strides, shared memory and elements that are one another."""
    program, model = both()
    storage = torch.randn(3, 4)
    for make in (lambda s: s.t(), lambda s: torch.cat([s, s], 1).t()[::2],
                 lambda s: s.reshape(-1)[:3].repeat(4, 1)):
        x = torch.randn(4, 3)
        ours, theirs = make(storage.clone()), make(storage.clone())
        with torch.no_grad():
            assert_same(program(x, ours), model(x, theirs))
        assert_same(ours, theirs)
    ours = torch.randn(4, 3)
    theirs = ours.clone()
    with torch.no_grad():  # what is read is what was there before the call
        assert_same(program(ours, ours), model(theirs, theirs))
    assert_same(ours, theirs)
    expanded = torch.randn(3).expand(4, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        program(torch.randn(4, 3), expanded)


def test_dynamic_sizes_and_profiles():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", torch.zeros(3))

        def forward(self, x):
            self.sum.add_(x.sum(0))
            return x + self.sum

    model = Rows()
    program = tv.compile(copy.deepcopy(model), [rows(1, 4, 64, 3)], min_block_size=1,
                         profiles=[tv.Profile(x=((1, 3), (2, 3), (8, 3))),
                                   tv.Profile(x=((8, 3), (32, 3), (64, 3)))])
    assert isinstance(program, Program) and writes(program) == 1
    for count in (2, 40, 8, 1):
        x = torch.randn(count, 3)
        assert_same(program(x), model(x))
        assert_same(program.get_buffer("sum"), model.sum)


def test_state_is_replaced_and_moved_on():
    """load_state_dict, also by assignment, and refit reach the next call."""
    program, model = both()
    calls_alike(program, model, 2)
    for how in ({"assign": True}, {}):
        fresh = {name: value.clone() for name, value in Counter().state_dict().items()}
        program.load_state_dict(fresh, **how)
        model.load_state_dict(fresh)
        calls_alike(program, model, 2)
    fresh = Counter().state_dict()
    tv.refit(program, fresh)
    model.load_state_dict(fresh)
    calls_alike(program, model, 2)


def test_inference_tensors_change_in_inference_mode_only():
    program, model = both()
    with torch.inference_mode():
        x, seen = arguments()
        other = seen.clone()
        assert_same(program(x, seen), model(x, other))
        assert_same(seen, other)
    with pytest.raises(RuntimeError, match="inference"):
        program(torch.randn(4, 3), seen)


def test_an_engine_alone_says_what_it_cannot_write():
    program, model = both()
    (engine,) = tv.engines(program)
    given = {b["name"]: torch.zeros(b["shape"], dtype=getattr(torch, b["dtype"]))
             for b in engine.info()["inputs"]}
    read_only = np.zeros((4, 3), np.float32)
    read_only.flags.writeable = False
    shared = torch.zeros(6)
    same_rows, moved = (np.lib.stride_tricks.as_strided(shared.numpy(), (4, 3), (step, 4))
                        for step in (0, 4))
    for wrong in (torch.zeros(1, 3).expand(4, 3), shared.as_strided((4, 3), (1, 1)), read_only,
                  same_rows, moved):
        with pytest.raises(ValueError, match="'total' is written by the engine"):
            engine.run({**given, "total": wrong})
    assert not shared.any()  # nothing ran
    x = torch.randn(4, 3)
    want = engine.run({**given, "x": x, "total": x.clone()})
    got = engine.run({**given, "x": x, "total": x})  # x is read as it was
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor)


LOST = """
import sys, torch, torch_vulkan as tv
class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 3))
    def forward(self, x):
        self.total.add_(x)
        return self.total * 2
program = tv.compile(Sum(), [torch.ones(4, 3)], min_block_size=1)
state = program.get_buffer("total")
run = lambda: program(torch.ones(4, 3))
if sys.argv[1] == "engine":
    (engine,) = tv.engines(program)
    names = {b["name"]: b["written"] for b in engine.info()["inputs"]}
    run = lambda: engine.run({name: state if written else torch.ones(4, 3)
                              for name, written in names.items()})
for _ in range(12):
    before = state._version
    try:
        run()
    except RuntimeError as error:
        assert "was lost" in str(error), error
        print("changed", state._version - before)
        break
    assert state._version == before + 1
"""


@turns(2)
@pytest.mark.parametrize("kind", ["program", "engine"])
def test_a_call_that_fails_counts_as_a_change(kind):
    """Parts may be written: autograd is to know."""
    assert "changed 1" in python(LOST, kind, TORCH_VULKAN_LOSE_DEVICE="10")
