"""Weights that stay in host memory and are copied to the device as kernels need them: results are
those without, bit for bit."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

from aot_helpers import python
from helpers import in_threads, vulkan
from vkexec_helpers import run

WIDTH = 96


class Net(nn.Module):
    """Weights that are read as they are, packed ones, a folded batch norm and a table."""

    def __init__(self, layers=6):
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.stem, self.norm = nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4)

    def forward(self, tokens):
        x = self.norm(self.stem(self.table(tokens)))
        for layer in self.layers:
            x = torch.relu(layer(x)) + x * 0.5
        return x


@pytest.fixture
def net():
    torch.manual_seed(3)
    return Net().eval().requires_grad_(False)


@pytest.fixture
def tokens():
    return torch.randint(50, (3, 4))


def compiled(net, **options):
    """The compiled module and the engine that its first call builds."""
    return vulkan(net, dynamic=False, min_block_size=1, **options)


def first_call(fast, tokens):
    calls = []
    with engine_call.collected(calls), torch.no_grad():
        got = fast(tokens)
    (call,) = calls
    return got, call.engine


def same_bits(got, want):
    return torch.equal(got.view(torch.int32), want.view(torch.int32))


@pytest.mark.setting("weight_budget")
def test_any_budget_gives_the_same_bits(net, tokens):
    want, whole = first_call(compiled(net, weight_budget=-2), tokens)
    assert whole.weight_memory()[1:] == [0, 0]
    torch._dynamo.reset()
    everything, engine = first_call(compiled(net, weight_budget=0), tokens)
    held, all_of_it, slots = engine.weight_memory()
    assert held == 0 and all_of_it > 0 and 0 < slots < all_of_it
    assert same_bits(everything, want)
    for budget in (all_of_it - 1, all_of_it // 2, 1, all_of_it):
        torch._dynamo.reset()
        fast = compiled(net, weight_budget=budget)
        got, engine = first_call(fast, tokens)
        held, streamed, slots = engine.weight_memory()
        assert held <= budget and (streamed > 0) == (budget < all_of_it)
        assert slots < all_of_it and (slots > 0) == (budget <= all_of_it // 2)  # the table has none
        for _ in range(3):
            assert same_bits(got, want)
            got = fast(tokens)


def test_changes_of_weights_are_seen(net, tokens):
    plain, fast = copy.deepcopy(net), compiled(net, weight_budget=40000)
    reference = compiled(plain, weight_budget=-2)
    _, engine = first_call(fast, tokens)
    with torch.no_grad():
        for step in range(3):
            for module in (net, plain):
                module.layers[step].weight.mul_(1.5)
                module.norm.running_mean.add_(0.25)
            assert same_bits(fast(tokens), reference(tokens))
        other = Net().eval().state_dict()
        for module in (net, plain):
            module.load_state_dict(other)
        assert same_bits(fast(tokens), reference(tokens))
    assert engine.weight_memory()[1] > 0


def test_programs_are_saved_loaded_and_refitted(net, tokens, tmp_path):
    whole = tv.compile(net, inputs=[tokens], min_block_size=1, weight_budget=-2)
    program = tv.compile(net, inputs=[tokens], min_block_size=1, weight_budget=20000)
    assert same_bits(program(tokens), whole(tokens))
    tv.save(program, tmp_path / "net.pt2")
    loaded = tv.load(tmp_path / "net.pt2")
    assert same_bits(loaded(tokens), whole(tokens))
    (engine,) = loaded.engine_objects().values()
    held, streamed, _ = engine.weight_memory()
    assert held <= 20000 and streamed > 0
    weights = {name: value + 0.5 for name, value in net.state_dict().items()
               if value.is_floating_point() and "var" not in name}
    for each in (whole, loaded):
        tv.refit(each, weights)
    assert same_bits(loaded(tokens), whole(tokens))
    (alone,) = loaded.engines()
    memory = alone.info()["memory"]
    assert memory["weights_held"] <= 20000 < memory["weights_streamed"] and memory["slots"] > 0


def test_engine_files(net, tokens, tmp_path):
    program = tv.compile(net, inputs=[tokens], min_block_size=1)
    (engine,) = program.engines()
    engine.save(tmp_path / "net.vke")
    streamed = tv.Engine.load(tmp_path / "net.vke", weight_budget=1000)
    inputs = [tokens] if len(engine.info()["inputs"]) == 1 else None
    (want,) = engine.run(inputs).values()
    (got,) = streamed.run(inputs).values()
    assert same_bits(got, want)
    name = next(w["name"] for w in engine.info()["weights"] if len(w["shape"]) == 2)
    shape = next(w["shape"] for w in engine.info()["weights"] if w["name"] == name)
    for each in (engine, streamed):
        each.refit({name: torch.full(shape, 0.125)})
    (want,) = engine.run(inputs).values()
    (got,) = streamed.run(inputs).values()
    assert same_bits(got, want)
    assert all(layer["time_us"] > 0 for layer in streamed.profile(inputs, runs=2))
    said = run(f"--loadEngine={tmp_path / 'net.vke'}", "--weightStreamingBudget=1K", "--verbose",
               "--iterations=1", "--warmUp=0", "--duration=0")
    assert "Streamed weights: " in said
    said = run(f"--loadEngine={tmp_path / 'net.vke'}", "--weightStreamingBudget=-2", "--verbose",
               "--iterations=1", "--warmUp=0", "--duration=0")
    assert "Streamed weights: " not in said


def test_calls_of_many_threads(net, tokens):
    fast = compiled(net, weight_budget=0)
    want, _ = first_call(fast, tokens)

    def work(_):
        with torch.no_grad():
            for _ in range(10):
                assert same_bits(fast(tokens), want)

    in_threads(work)


def test_torchscript(net, tokens):
    script = torch.jit.trace(net, tokens)
    fast = tv.compile(script, inputs=[tokens], min_block_size=1, weight_budget=0)
    assert same_bits(fast(tokens), tv.compile(script, inputs=[tokens], min_block_size=1)(tokens))
    from torch_vulkan._script import programs

    for engine, _ in programs.engines_of(fast).values():
        assert engine.weight_memory()[0] == 0 < engine.weight_memory()[1]


PROCESS = """
import sys, warnings
import torch, torch_vulkan as tv
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(20))).eval().requires_grad_(False)
x = torch.randn(2, 512)
"""

# The device tells that it has no room for the 20 MiB of weights, or it is found out.
LITTLE = PROCESS + """
budget, streams = int(sys.argv[1]), sys.argv[2] == "streams"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    fast = torch.compile(net, backend="vulkan",
                         options={"min_block_size": 1, "weight_budget": budget})
    torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
memory = tv.memory_stats()
print(memory, [str(warning.message) for warning in told])
assert (memory["host_weights"] > 0) == streams
assert memory["weights"] + memory["slots"] <= 16 << 20
assert any("memory" in str(warning.message) for warning in told) != streams
"""


@pytest.mark.parametrize("budget, streams", [(-1, True), (1 << 40, True), (-2, False)])
def test_too_little_memory_streams(budget, streams):
    python(LITTLE, str(budget), "streams" if streams else "", TORCH_VULKAN_STAGING="1",
           TORCH_VULKAN_DEVICE_BYTES=str(16 << 20))


VARIABLE = PROCESS + """
program = tv.compile(net, inputs=[x], min_block_size=1)
torch.testing.assert_close(program(x), net(x), rtol=1e-4, atol=1e-4)
assert tv.memory_stats()["host_weights"] >= 20 * 512 * 512 * 4
tv.release_memory()
assert tv.memory_stats()["slots"] == 0
torch.testing.assert_close(program(x), net(x), rtol=1e-4, atol=1e-4)
"""


@pytest.mark.parametrize("staging", ["0", "1"])
def test_the_variable_is_for_programs_without_a_setting(staging):
    python(VARIABLE, TORCH_VULKAN_WEIGHT_BUDGET="0", TORCH_VULKAN_STAGING=staging)


LOST = PROCESS + """
fast = torch.compile(net, backend="vulkan", options={"min_block_size": 1, "weight_budget": 0})
warnings.simplefilter("ignore")
for _ in range(6):
    torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
assert tv.memory_stats()["host_weights"] > 0
"""


@pytest.mark.parametrize("submission", [6, 8])
def test_a_device_that_is_lost(submission):
    python(LOST, TORCH_VULKAN_LOSE_DEVICE=str(submission))
