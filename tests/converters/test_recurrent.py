"""LSTM, GRU and RNN: one operator for each layer and direction, whatever the number of steps."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from parity import FLOATS, check, check_tactic, compare, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN,
         "relu": lambda *args, **how: nn.RNN(*args, nonlinearity="relu", **how)}


@pytest.fixture(autouse=True)
def allow_rnn():
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def network(kind, *sizes, dtype=torch.float32, seed=0, **how):
    torch.manual_seed(seed)
    return KINDS[kind](*sizes, **how).eval().to(dtype)


def call(model):
    return lambda *args: model(args[0], *([args[1:] if len(args) == 3 else args[1]]
                                          if len(args) > 1 else []))


def states(kind, model, batch, dtype=torch.float32):
    count = model.num_layers * (2 if model.bidirectional else 1)
    shape = (count, batch, model.hidden_size)
    return [tensor(*shape, dtype=dtype, seed=i) for i in range(2 if kind == "lstm" else 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps, batch, units", [(1, 1, 1), (5, 3, 7), (4, 5, 64)])
def test_sizes(kind, steps, batch, units):
    model = network(kind, 6, units)
    check(call(model), tensor(steps, batch, 6), length=units)
    model = network(kind, 6, units)
    check(call(model), tensor(steps, batch, 6), *states(kind, model, batch), length=units)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_directions(kind):
    model = network(kind, 6, 9, num_layers=2, bidirectional=True, batch_first=True)
    check(call(model), tensor(3, 5, 6), *states(kind, model, 3), length=9)
    check(call(network(kind, 6, 9, num_layers=2, bias=False)), tensor(4, 2, 6), length=9)
    check(call(network(kind, 6, 9)), tensor(4, 6), length=9)  # without a batch


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("units", [9, 68])
def test_16_bit_floats(kind, dtype, units):
    model = network(kind, 6, units, dtype=dtype)
    exact = network(kind, 6, units, dtype=dtype).double()
    x = tensor(5, 2, 6, dtype=dtype)
    fast = torch.compile(call(model), backend="vulkan", fullgraph=True,
                         options={"min_block_size": 1, "require_full_compilation": True})
    with torch.no_grad():
        got, want = fast(x), call(exact)(x.double())
        torch.testing.assert_close(got[0].double(), want[0], rtol=0,
                                   atol=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("kind", KINDS)
def test_special_values(kind):
    x = tensor(4, 3, 6)
    x[1, 0, 2], x[2, 1, 0], x[0, 2, 1] = float("nan"), float("inf"), float("-inf")
    model = network(kind, 6, 7)
    check(call(model), x, length=7)


@pytest.mark.parametrize("kind, units, name", [
    ("lstm", 64, "recurrent_simd"), ("lstm", 160, "recurrent_simd"), ("gru", 96, "recurrent_simd"),
    ("lstm", 100, "recurrent_simd"), ("gru", 36, "recurrent_simd"),
    ("tanh", 64, "recurrent_simd"), ("relu", 32, "recurrent_simd"),
    ("lstm", 64, "recurrent_group64_1"), ("gru", 19, "recurrent_group32_4"),
    ("tanh", 19, "recurrent_group32_2"), ("lstm", 256, "recurrent_steps_group64_1"),
    ("gru", 320, "recurrent_steps_group64_1")])
def test_tactics(kind, units, name, request):
    on_gpu = "gpu" in request.node.callspec.id.split("-")
    if name in ("recurrent_simd", "recurrent_steps_group64_1") and on_gpu == (
            name == "recurrent_simd"):
        pytest.skip("a tactic of CPU drivers, or of GPUs")
    model = network(kind, 6, units)
    check_tactic(name, call(model), tensor(3, 5, 6), length=units)


def test_dynamic_lengths():
    model = network("lstm", 6, 9, bidirectional=True)
    steps = tv.Input(min_shape=(1, 2, 6), opt_shape=(7, 2, 6), max_shape=(6000, 2, 6))
    program = tv.compile(model, [steps], min_block_size=1, require_full_compilation=True)
    for count in (1, 5, 300, 5000):
        x = tensor(count, 2, 6)
        with torch.no_grad():
            compare(program(x), model(x), length=9)


def test_the_graph_does_not_grow_with_the_steps():
    layers = []
    for count in (5000, 9000):
        model = network("gru", 6, 9)
        program = tv.compile(model, [tensor(count, 2, 6)], min_block_size=1)
        layers.append(len(tv.engines(program)[0].info()["layers"]))
    assert layers[0] == layers[1] < 9


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_right(kind):
    model = network(kind, 6, 9).train()
    x = tensor(4, 2, 6)
    model(x)[0].sum().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.compile(model, backend="vulkan", options={"min_block_size": 1})(x)[0].sum().backward()
    for p, grad in zip(model.parameters(), want, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("of", ["dynamic", 102])
def test_slow_loops_of_cpu_drivers_stay_native(of, request, device):
    if "gpu" in request.node.callspec.id.split("-") or device.type != "cpu":
        pytest.skip("of CPU drivers")
    model = network("lstm", 6, of if isinstance(of, int) else 128)
    steps = (tv.Input(min_shape=(1, 2, 6), opt_shape=(7, 2, 6), max_shape=(6000, 2, 6))
             if of == "dynamic" else tensor(5, 2, 6))
    with pytest.raises(ValueError, match="slow on a CPU driver"):
        tv.compile(model, [steps], min_block_size=1, require_full_compilation=True)


def test_what_stays_native_has_the_strides_that_were_traced():
    """aten.lstm.input transposes its result where the batch comes first."""
    model = network("lstm", 6, 102, batch_first=True)
    x = tensor(3, 5, 6)
    fast = torch.compile(lambda x: model(x)[0].reshape(-1, 102).flatten() * 2, backend="vulkan",
                         fullgraph=True, options={"min_block_size": 1})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x)[0].flatten() * 2, rtol=0, atol=1e-5)


def test_autocast_lowers_what_it_lowers_in_eager_mode():
    model, x = network("gru", 6, 8), tensor(5, 2, 6)
    fast = torch.compile(model, backend="vulkan", options={"min_block_size": 1})
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, want = fast(x), model(x)
    for a, e in zip(got, want, strict=True):
        assert a.dtype == e.dtype
        torch.testing.assert_close(a, e, rtol=0.02, atol=0.02)
