"""With gradients: forward and backward graphs are compiled alike."""

import copy

import torch
from torch import nn

from torch_vulkan import compilations

from helpers import assert_same, vulkan


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.LayerNorm(10), nn.Linear(10, 4),
                         nn.Softmax(-1))


def gradients(model, call, x):
    x = x.clone().requires_grad_()
    out = call(x)
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in model.parameters())]


def test_gradients():
    model = network()
    fast_model = copy.deepcopy(model)
    fast = vulkan(fast_model)
    x = torch.randn(5, 6)
    for _ in range(2):
        for m in (model, fast_model):
            m.zero_grad()
        for a, b in zip(gradients(fast_model, fast, x), gradients(model, model, x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    kinds = [record.kind for record in compilations.compilations()]
    assert kinds == ["forward", "backward"]
    assert all(record.engines for record in compilations.compilations())


def test_training_converges_as_eager_does():
    x, y = torch.randn(16, 6), torch.randn(16, 4).softmax(-1)
    losses = {}
    for name in ("eager", "vulkan"):
        model = network()
        step = vulkan(model) if name == "vulkan" else model
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        losses[name] = []
        for _ in range(8):
            loss = nn.functional.mse_loss(step(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    torch.testing.assert_close(losses["vulkan"], losses["eager"], rtol=1e-3, atol=1e-6)
    assert losses["vulkan"][-1] < losses["vulkan"][0]


def test_only_some_inputs_need_gradients():
    def function(x, w):
        return torch.relu(x @ w) * 2

    x, w = torch.randn(4, 5), torch.randn(5, 3, requires_grad=True)
    w2 = w.detach().clone().requires_grad_()
    vulkan(function)(x, w).sum().backward()
    function(x, w2).sum().backward()
    assert_same(w.grad, w2.grad)


def test_gradients_with_dynamic_shapes():
    model = network()
    fast = vulkan(model, dynamic=True)
    for batch in (5, 3, 8):
        x = torch.randn(batch, 6)
        model.zero_grad()
        got = gradients(model, fast, x)
        got = [g.clone() for g in got]
        model.zero_grad()
        for a, b in zip(got, gradients(model, model, x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_batch_norm_in_training_mode():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    fast_model = copy.deepcopy(model)
    fast = vulkan(fast_model)
    for _ in range(2):
        x = torch.randn(3, 2, 6, 6)
        fast(x).sum().backward()
        model(x).sum().backward()
    for (name, a), b in zip(fast_model.state_dict().items(), model.state_dict().values(),
                            strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def test_mutated_parameter_under_no_grad():
    model = nn.Linear(4, 4)
    fast = vulkan(model)
    x = torch.randn(2, 4)
    fast(x).sum().backward()
    with torch.no_grad():
        model.weight.add_(1)
        assert_same(fast(x), nn.functional.linear(x, model.weight, model.bias))
    torch.testing.assert_close(fast(x), nn.functional.linear(x, model.weight, model.bias))


def test_double_use_and_detach():
    def function(x):
        y = torch.relu(x)
        return y * y.detach() + y

    x = torch.randn(4, 5, requires_grad=True)
    x2 = x.detach().clone().requires_grad_()
    vulkan(function)(x).sum().backward()
    function(x2).sum().backward()
    assert_same(x.grad, x2.grad)


def test_backward_in_a_compiled_function():
    """Its graph is compiled while Dynamo looks at what runs: a callback of ours was traced, and
    waited for ever."""
    def step(a, b):
        (3 * a**3 - b**2).backward(gradient=torch.ones(2))
        return a.grad, b.grad

    a, b = (torch.tensor(v, requires_grad=True) for v in ([2.0, 3.0], [6.0, 4.0]))
    got = torch.compile(step, backend="vulkan", options={"min_block_size": 1})(a, b)
    torch.testing.assert_close(got, (torch.tensor([36.0, 81.0]), torch.tensor([-12.0, -8.0])))
