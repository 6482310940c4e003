"""Weights are the module's own tensors: a change is seen by the next call."""

import gc
import threading
import time

import pytest
import safetensors.torch
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

from helpers import assert_same, in_threads, vulkan


def linear_engine(**options):
    """A compiled linear layer, its module and its call."""
    model = nn.Linear(8, 5).requires_grad_(False)
    calls = []
    fast = vulkan(model, **options)
    with engine_call.collected(calls):
        fast(torch.randn(3, 8))
    return model, fast, calls[0].engine


def same(model, fast):
    x = torch.randn(3, 8)
    assert_same(fast(x), nn.functional.linear(x, model.weight, model.bias))


def test_weights_are_prepared_once():
    model, fast, engine = linear_engine()
    for _ in range(3):
        same(model, fast)
    assert engine.weight_sets() == 1


def test_in_place_change():
    model, fast, engine = linear_engine()
    model.weight.mul_(2)
    same(model, fast)
    model.bias.zero_()
    same(model, fast)
    assert engine.weight_sets() == 1


def test_load_state_dict():
    model, fast, engine = linear_engine()
    model.load_state_dict(nn.Linear(8, 5).state_dict())
    same(model, fast)
    model.load_state_dict(nn.Linear(8, 5).state_dict(), assign=True)
    model.requires_grad_(False)
    same(model, fast)


def test_parameter_swapped():
    model, fast, engine = linear_engine()
    for _ in range(4):
        model.weight = nn.Parameter(torch.randn(5, 8), requires_grad=False)
        gc.collect()
        same(model, fast)
    assert engine.weight_sets() == 1, "sets of weights that are gone are freed"


def test_optimizer_step():
    model = nn.Linear(8, 5)
    fast = vulkan(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.randn(3, 8)
    for _ in range(3):
        with torch.no_grad():
            assert_same(fast(x), nn.functional.linear(x, model.weight, model.bias))
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_new_data_at_an_old_address():
    """What `.data = …` frees may be allocated again: the memory is told apart by its storage."""
    model, fast, _ = linear_engine()
    place = bytearray(8 * 5 * 4)  # which stands for memory that the allocator gives once more
    addresses = set()
    for _ in range(3):
        place[:] = torch.randn(8, 5).numpy().tobytes()
        # (Transposed: else the engine keeps the memory, and reads what is written there.)
        model.weight.data = torch.frombuffer(place, dtype=torch.float32).view(8, 5).t()
        addresses.add(model.weight.data_ptr())
        same(model, fast)
    assert len(addresses) == 1


def test_write_through_data_needs_forget_weights():
    model, fast, engine = linear_engine()
    model.weight.data = torch.randn(5, 8)  # another storage: seen
    same(model, fast)
    model.weight.data.copy_(torch.randn(5, 8))  # same storage, same version: not promised
    engine.forget_weights()
    same(model, fast)


def test_two_modules_share_an_engine():
    first, second = (nn.Linear(8, 5).requires_grad_(False) for _ in range(2))
    calls = []

    def apply(layer, x):
        return layer(x)

    fast = vulkan(apply)
    x = torch.randn(3, 8)
    with engine_call.collected(calls):
        for _ in range(2):
            for model in (first, second):
                assert_same(fast(model, x), model(x))
    assert len(calls) == 1 and calls[0].engine.weight_sets() == 2


@pytest.mark.setting("immutable_weights")
def test_immutable_weights():
    model, fast, engine = linear_engine(immutable_weights=True)
    x = torch.randn(3, 8)
    before = fast(x)
    model.weight.mul_(2)
    assert_same(fast(x), before)


def prepared(engine):
    """How many sets of weights an engine has made so far."""
    return engine.weights_prepared()


def test_inference_tensors():
    with torch.inference_mode():
        model = nn.Linear(8, 5).requires_grad_(False)
        calls = []
        fast = vulkan(model)
        with engine_call.collected(calls):
            same(model, fast)
        engine = calls[0].engine
        assert len(calls[0].weight_positions) == 2, "they are weights"
        for _ in range(3):
            same(model, fast)
        assert prepared(engine) == 1
        for change in range(3):
            model.weight.view(-1)[-1] += 1  # no counter sees it
            for _ in range(2):
                same(model, fast)
            assert prepared(engine) == change + 2
        model.weight.data = torch.randn(5, 8)
        same(model, fast)
    assert engine.weight_sets() == 1, "sets of older contents are freed"


@pytest.mark.parametrize("immutable", [False, True])
def test_what_inference_tensors_cost_is_said(capfd, immutable):
    with torch.inference_mode():
        model = nn.Linear(8, 5).requires_grad_(False)
        fast = vulkan(model, immutable_weights=immutable)
        before = torch.is_warn_always_enabled()
        torch.set_warn_always(True)  # it is said once a process
        try:
            for _ in range(2):
                same(model, fast)
        finally:
            torch.set_warn_always(before)
    said = "weights are inference tensors, which count no writes, so each call reads all"
    assert (said in capfd.readouterr().err) != immutable


def test_weights_stay_weights_where_an_input_is_an_inference_tensor():
    model = nn.Linear(8, 5).requires_grad_(False)
    fast, calls = vulkan(model), []
    with engine_call.collected(calls), torch.inference_mode():
        for _ in range(3):
            same(model, fast)
        (call,) = calls
        assert len(call.weight_positions) == 2 and prepared(call.engine) == 1
        model.weight.mul_(2)  # a tensor that carries a version, also when written here
        same(model, fast)
        assert prepared(call.engine) == 2


@pytest.mark.parametrize("inside", [False, True], ids=["compiled outside", "compiled inside"])
def test_graphs_called_in_inference_mode(inside):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            x = self.a(x)
            torch._dynamo.graph_break()
            return self.b(x)

    model, calls = Broken().requires_grad_(False), []
    fast = vulkan(model)
    with engine_call.collected(calls):
        with torch.inference_mode(inside):
            fast(torch.randn(3, 8))
        with torch.inference_mode():
            for _ in range(3):
                assert_same(fast(torch.ones(3, 8)), model(torch.ones(3, 8)))
    made = calls[-2:]
    assert [len(call.weight_positions) for call in made] == [2, 2]
    assert [prepared(call.engine) for call in made] == [1, 1]


def test_mixed_weights():
    """One weight of inference mode among ordinary ones."""
    model = nn.Linear(8, 5).requires_grad_(False)
    with torch.inference_mode():
        model.bias = nn.Parameter(torch.randn(5), requires_grad=False)
        calls = []
        fast = vulkan(model)
        with engine_call.collected(calls):
            same(model, fast)
        for _ in range(3):
            same(model, fast)
        assert prepared(calls[0].engine) == 1
        model.bias.add_(1)
        same(model, fast)
        model.weight.add_(1)
        same(model, fast)
        assert prepared(calls[0].engine) == 3


def test_ahead_of_time_in_inference_mode(tmp_path):
    x = torch.randn(3, 8)
    calls = []
    with torch.inference_mode():
        model = nn.Linear(8, 5).requires_grad_(False)
        with engine_call.collected(calls):
            program = tv.compile(model, [x], min_block_size=1)
        for _ in range(3):
            assert_same(program(x), model(x))
        tv.save(program, tmp_path / "linear.pt2")
        loaded = tv.load(tmp_path / "linear.pt2")
        for _ in range(2):
            assert_same(loaded(x), model(x))
    assert [prepared(call.engine) for call in calls] == [1]


def test_tied_and_strided_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 6, bias=False)
            self.b = nn.Linear(6, 6, bias=False)
            self.b.weight = self.a.weight
            self.c = nn.Parameter(torch.randn(7, 6).t())

        def forward(self, x):
            return self.b(torch.relu(self.a(x))) @ self.c

    model = Tied().requires_grad_(False)
    fast = vulkan(model)
    x = torch.randn(3, 6)
    assert_same(fast(x), model(x))
    model.a.weight.neg_()
    assert_same(fast(x), model(x))


@pytest.mark.parametrize("own", [False, True], ids=["same weights", "weights of its own"])
def test_threads_share_an_engine(own):
    model = nn.Linear(8, 5).requires_grad_(False)
    calls = []
    with engine_call.collected(calls):
        vulkan(model)(torch.randn(3, 8))
    call = calls[0]

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        mine = nn.Linear(8, 5).requires_grad_(False) if own else model
        for _ in range(50):
            x = torch.randn(3, 8, generator=generator)
            (got,) = call.outputs([x], given(call.engine, mine))
            torch.testing.assert_close(got, torch.addmm(mine.bias, x, mine.weight.t()))

    in_threads(work)


def given(engine, model):
    """The weights in the order of the engine."""
    from torch_vulkan._engines.engine import Engine, tensor_bytes

    shapes = [w["shape"] for w in Engine(tensor_bytes(engine.vke())).info()["weights"]]
    return [model.weight if shape == [5, 8] else model.bias for shape in shapes]


def test_repeated_calls_hand_their_weights_over_as_one_object():
    """From the second call with the same tensors on; every change is seen, as with a list."""
    model, calls = nn.Linear(8, 5).requires_grad_(False), []
    with engine_call.collected(calls):
        fast = vulkan(model)
        same(model, fast)
    held = calls[0]._held
    for _ in range(2):
        same(model, fast)
    first = held._last[1]
    assert first is not None
    model.weight.mul_(2)
    same(model, fast)
    assert held._last[1] is first
    for _ in range(3):
        model.weight = nn.Parameter(torch.randn(5, 8), requires_grad=False)
        same(model, fast)
        assert held._last[1] is None
        same(model, fast)
    assert held._last[1] is not None


@torch.no_grad()
def test_a_change_while_a_set_is_made_is_seen():
    """Another thread's call makes a new set for the larger weight; the smaller one, which it has
    read, changes meanwhile."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1024), nn.Linear(1024, 1024))
    fast, x = vulkan(model, min_block_size=1), torch.randn(16, 64)
    fast(x)
    calls, ends = [0], threading.Event()

    def call():
        while not ends.is_set():
            fast(x)
            calls[0] += 1

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for i in range(60):
            model[3].weight.copy_(torch.randn(1024, 1024) / 32)
            time.sleep(i % 20 / 2000)
            model[0].weight.copy_(torch.randn(64, 64) / 8)
            before = calls[0]
            while calls[0] < before + 2 and thread.is_alive():
                time.sleep(0.0005)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-3, atol=1e-3)
    finally:
        ends.set()
        thread.join()


class Odd(nn.Module):
    """PyTorch lets a tensor of at most one element have any stride and calls it contiguous."""

    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.arange(8.)[4::4][:1])
        self.register_buffer("other", torch.arange(8.).bfloat16()[2::4][:1])
        assert self.one.stride() == (4,) and self.one.is_contiguous()

    def forward(self, x):
        return (x * self.one + self.other).relu() * 2


def test_a_single_weight_of_any_stride(tmp_path):
    model, x = Odd(), torch.randn(3, 4)
    assert_same(vulkan(model, immutable_weights=True)(x), model(x))
    program = tv.compile(model, inputs=[x], min_block_size=1)
    tv.save(program, tmp_path / "odd.pt2")
    assert_same(tv.load(tmp_path / "odd.pt2")(x), model(x))
    tv.export_graph(model, tmp_path / "odd.tvg", inputs=[x])
    written = safetensors.torch.load_file(tmp_path / "odd.tvg")
    assert sorted(value.item() for value in written.values()) == [2, 4]
