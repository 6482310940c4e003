"""Weights inside of tensors of subclasses: a write to the outer tensor is seen by the next call."""

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

import torch_vulkan as tv
from torch_vulkan._fx import engine_call

from helpers import vulkan


class Wrapped(torch.Tensor):
    """A tensor that holds another one."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Wrapped({self.inner})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, tensors, _, size, stride):
        return cls(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        tree = torch.utils._pytree
        plain = tree.tree_map_only(Wrapped, lambda t: t.inner, (args, kwargs or {}))
        results = tree.tree_map_only(torch.Tensor, Wrapped, func(*plain[0], **plain[1]))
        return return_and_correct_aliasing(func, args, kwargs or {}, results)


def plain(tensor):
    while isinstance(tensor, (Wrapped, TwoTensor)):
        tensor = tensor.inner if isinstance(tensor, Wrapped) else tensor.b
    return tensor


def both(tensor):
    return TwoTensor(tensor.clone(), tensor.clone())


KINDS = {"two": both, "wrapped": lambda w: Wrapped(w.clone()),
         "nested": lambda w: Wrapped(both(w)), "nested_inside": lambda w: TwoTensor(
             Wrapped(w.clone()), Wrapped(w.clone()))}


def model_of(kind):
    model = nn.Linear(8, 5)
    for name, parameter in [*model.named_parameters()]:
        setattr(model, name, nn.Parameter(KINDS[kind](parameter.detach())))
    return model


def assert_seen(model, fast):
    x = torch.randn(3, 8)
    with torch.no_grad():
        got, want = fast(x), model(x)
    torch.testing.assert_close(plain(got), plain(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_in_place_change(kind):
    model = model_of(kind)
    fast = vulkan(model)
    assert_seen(model, fast)
    for write in (lambda: model.weight.mul_(2), lambda: model.weight[0].zero_(),
                  lambda: model.weight.detach().add_(1),
                  lambda: torch._foreach_mul_([model.weight, model.bias], 3.0)):
        with torch.no_grad():
            write()
        assert_seen(model, fast)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_optimizer(kind, optimizer, how):
    model = model_of(kind)
    fast = vulkan(model)
    steps = optimizer(model.parameters(), lr=0.1, **how)
    for _ in range(3):
        assert_seen(model, fast)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        steps.step()
    assert_seen(model, fast)


def test_another_program_sees_it_too():
    model = model_of("two")
    one, other = vulkan(model), vulkan(lambda x: model(x) * 2)
    for fast, want in ((one, model), (other, lambda x: model(x) * 2)) * 2:
        assert_seen(want, fast)
        with torch.no_grad():
            model.weight.mul_(2)


def test_weights_are_prepared_once():
    model, calls = model_of("wrapped"), []
    fast = vulkan(model)
    with engine_call.collected(calls):
        assert_seen(model, fast)
    engine = calls[0].engine
    prepared = engine.weights_prepared()
    for _ in range(3):
        assert_seen(model, fast)
    assert prepared > 0 and engine.weights_prepared() == prepared


def test_inference_tensors():
    with torch.inference_mode():
        model = model_of("wrapped")
        fast, x = vulkan(model), torch.randn(3, 8)
        for _ in range(2):
            torch.testing.assert_close(fast(x).inner, model(x).inner, rtol=1e-4, atol=1e-5)
            model.weight.mul_(2)


def test_dtensor():
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch was built without torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, distribute_module

    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = distribute_module(nn.Linear(8, 5), mesh)
        fast, x = vulkan(model), DTensor.from_local(torch.randn(3, 8), mesh)
        for _ in range(3):
            with torch.no_grad():
                got, want = fast(x).to_local(), model(x).to_local()
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
                model.weight.mul_(2)
    finally:
        distributed.destroy_process_group()


def test_quantised_training():
    torchao = pytest.importorskip("torchao")
    from torchao.prototype.quantized_training import int8_weight_only_quantized_training

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
    torchao.quantize_(model, int8_weight_only_quantized_training())
    fast, x = vulkan(model), torch.randn(4, 64)
    steps = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
        model(x).square().sum().backward()
        steps.step()
        steps.zero_grad()
    assert tv.compilations.compilations()[-1].covered_nodes


@pytest.mark.parametrize("kind", KINDS)
def test_results_that_need_no_gradients(kind):
    """Outside of no_grad such a graph is one for inference, with weights."""
    model, x = model_of(kind), torch.randn(3, 8)
    fast = vulkan(lambda x: model(x).detach())
    for _ in range(3):
        got, want = fast(x), model(x).detach()
        torch.testing.assert_close(plain(got), plain(want), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(-2)


def test_the_module_is_converted_afterwards():
    """PyTorch refuses to where something has weak references to its tensors."""
    model = model_of("two")
    fast = vulkan(model)
    assert_seen(model, fast)
    model.to(torch.float64)
    x = torch.randn(3, 8, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(plain(fast(x)), plain(model(x)), rtol=1e-4, atol=1e-5)
