"""Little things between a model's operators on CUDA tensors: they cut no engine in two, each of
which would cost two switches of the GPU, and give what they give in eager."""

import copy

import pytest
import torch
from torch import nn

from torch_vulkan import compilations

from helpers import engines, shared_gpu, vulkan

pytestmark = pytest.mark.skipif(not shared_gpu(), reason="no GPU that CUDA and Vulkan share")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    compilations.clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 128), (7, 13), (5, 3, 11, 9), (1,)])
def test_dropouts_draw_what_eager_draws(dtype, shape):
    def function(x):
        x, first = torch.native_dropout(x.relu(), 0.3, True)
        y, second = torch.native_dropout(x.transpose(0, -1).neg(), 0.7, True)
        return x, first, y, second

    x = torch.randn(shape, device="cuda", dtype=dtype)
    with torch.no_grad():
        torch.manual_seed(3)
        want = function(x)
        torch.manual_seed(3)
        got = vulkan(function)(x)
    assert engines(compilations.compilations()) == 1
    for a, b in zip(got, want, strict=True):
        assert a.device == b.device and a.stride() == b.stride()
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("draw", [torch.randn_like, torch.rand_like,
                                  lambda x: torch.empty_like(x).exponential_(),
                                  lambda x: x.new_empty(x.shape[0], 1).bernoulli_(0.5)])
def test_random_ops_by_the_look_of_a_tensor(draw):
    def function(x):
        x = torch.tanh(x).t()
        return x + draw(x)

    x = torch.randn(37, 41, device="cuda")
    with torch.no_grad():
        torch.manual_seed(3)
        want = function(x)
        torch.manual_seed(3)
        torch.testing.assert_close(vulkan(function)(x), want)
    assert engines(compilations.compilations()) == 1


def test_a_layer_with_dropouts_is_trained_in_one_engine_each_way():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.2, batch_first=True).cuda()
    layer.self_attn.dropout = 0.0  # attention's own is drawn inside of its kernel
    ours = copy.deepcopy(layer)
    fast = vulkan(ours)
    x = torch.randn(3, 16, 64, device="cuda")
    for call in (layer, fast):
        torch.manual_seed(7)
        call(x).square().sum().backward()
    for a, b in zip(ours.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
    assert [(r.kind, len(r.engines)) for r in compilations.compilations()] == [
        ("forward", 1), ("backward", 1)]


def test_what_is_made_on_the_cpu_for_cuda():
    def function(x):
        x = x.relu()[:, [2, 0, 1]]
        x = x + torch.tensor([1.0, 2.0, 3.0], device=x.device)
        mask = (torch.arange(3) >= 1).to(x.device, x.dtype)
        return x * torch.arange(3).to(x.device) + torch.ones(3).cuda(), x @ torch.diag(mask)

    x = torch.randn(5, 7, device="cuda")
    with torch.no_grad():
        torch.testing.assert_close(vulkan(function)(x), function(x))
    (record,) = compilations.compilations()
    assert len(record.engines) == 1 and not [n for n in record.native if "copy" in n.op]


def test_results_on_both_devices():
    def function(x, y):
        return x.exp() * 2, y.sin() * 2, torch.arange(4) + 1

    x, y = torch.randn(5, 7, device="cuda"), torch.randn(3)
    with torch.no_grad():
        got = vulkan(function)(x, y)
    for a, b in zip(got, function(x, y), strict=True):
        assert a.device == b.device
        torch.testing.assert_close(a, b)
