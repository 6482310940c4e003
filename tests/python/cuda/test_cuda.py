"""Tensors and modules on CUDA, whichever way they reach the engine: what callers give and get.

Runs where CUDA and a Vulkan device are the same GPU; test_cuda_interop.py is about how.
"""


import pytest
import torch
from torch import nn

from torch_vulkan import compilations

from helpers import assert_same, engines, exact_products, in_threads, shared_gpu, vulkan

pytestmark = pytest.mark.skipif(not shared_gpu(), reason="no GPU that CUDA and Vulkan share")


@pytest.fixture(autouse=True)
def exact():
    torch.manual_seed(0)
    with exact_products():
        yield
    torch.cuda.synchronize()


def randn(*shape, **options):
    return torch.randn(*shape, device="cuda", **options)


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 11)).cuda()


def close(got, want, tolerance=1e-4):
    assert got.device == want.device and got.shape == want.shape and got.dtype == want.dtype
    assert (got - want).abs().max() <= tolerance * want.abs().max()


def built():
    return engines(compilations.compilations())


def test_module_on_cuda():
    model, x = network().eval(), randn(2, 3, 17, 13)
    with torch.no_grad():
        close(vulkan(model)(x), model(x))
    assert built() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_dtypes(dtype):
    x = (randn(7, 29) * 10).to(dtype)
    y = (randn(29) * 10).to(dtype)
    with torch.no_grad():
        assert_same(vulkan(lambda x, y: x * 2 + y)(x, y), x * 2 + y)


def test_tensors_that_are_not_dense():
    base = randn(24, 37, 5)
    fast = vulkan(lambda x: torch.softmax(x, -1) + x.sum(0))
    with torch.no_grad():
        for x in (base.transpose(0, 2), base[1:], base[::2, 1:], base[..., 3].expand(2, 24, 37)):
            torch._dynamo.reset()
            assert_same(fast(x), torch.softmax(x, -1) + x.sum(0))
        image = randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        assert_same(vulkan(lambda x: torch.relu(x) * 2)(image), torch.relu(image) * 2)


def test_empty_and_zero_dimensional():
    fast = vulkan(lambda x, s: (torch.relu(x) * s, x.sum() + s))
    with torch.no_grad():
        for x in (randn(0, 5), randn(()), randn(3, 5)):
            s = randn(())
            assert_same(fast(x, s), (torch.relu(x) * s, x.sum() + s))


def test_the_same_tensor_twice_and_an_input_returned():
    fast = vulkan(lambda x, y: (x @ y.t(), x, y + 1))
    x = randn(13, 7)
    with torch.no_grad():
        a, b, c = fast(x, x)
    torch.testing.assert_close(a, x @ x.t())
    assert b.data_ptr() == x.data_ptr()
    torch.testing.assert_close(c, x + 1)


def test_a_scalar_on_the_cpu():
    fast = vulkan(lambda x, s: x * s + 1)
    x, s = randn(5, 7), torch.tensor(2.5)
    with torch.no_grad():
        assert_same(fast(x, s), x * s + 1)


@pytest.mark.parametrize("number", [0.1, 3])
def test_numbers_with_dynamic_shapes(number):
    def function(x, s):
        return torch.relu(x) * s + x / x.shape[0]

    fast = vulkan(function, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 9):
            x = randn(n, 7)
            assert_same(fast(x, number), function(x, number))


def test_dynamic_batch():
    model = network().eval()
    fast = vulkan(model, dynamic=True)
    with torch.no_grad():
        for batch in (2, 5, 3, 64, 2):
            x = randn(batch, 3, 9, 9)
            close(fast(x), model(x))
    assert built() == 1


def test_training_steps():
    """Three optimizer steps: weights that change on the GPU are seen, gradients are eager's."""
    import copy

    ours = network()
    theirs = copy.deepcopy(ours)
    fast = vulkan(ours)
    optimizers = [torch.optim.SGD(m.parameters(), 0.05, momentum=0.9) for m in (ours, theirs)]
    for _ in range(3):
        x, target = randn(4, 3, 9, 9), torch.randint(11, (4,), device="cuda")
        for f, optimizer in zip((fast, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(f(x), target).backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_weights_that_change():
    model = nn.Linear(29, 37).cuda()
    fast = vulkan(model)
    x = randn(5, 29)
    with torch.no_grad():
        for step in range(4):
            close(fast(x), model(x))
            model.weight.mul_(0.5).add_(step)
        model.load_state_dict(nn.Linear(29, 37).cuda().state_dict())
        close(fast(x), model(x))


def test_inputs_that_are_written_right_before_and_outputs_that_are_read_right_after():
    """No synchronisation in the caller: the engine stands in the stream's order."""
    fast = vulkan(lambda x: torch.softmax(x * 2, -1) + x)
    x = randn(512, 512)
    big = randn(2048, 2048)
    with torch.no_grad():
        fast(x)
        for step in range(10):
            big = torch.tanh(big @ big)  # keeps the stream busy
            x.copy_(big[:512, :512] + step)
            got = fast(x) * 2
            x.zero_()
            want = big[:512, :512] + step
            assert_same(got, (torch.softmax(want * 2, -1) + want) * 2)


def test_several_streams():
    def function(x):
        return torch.cumsum(torch.relu(x), -1) * 3

    fast = vulkan(function)
    inputs = [randn(257, 113) for _ in range(4)]
    streams = [torch.cuda.Stream() for _ in inputs]
    results = []
    with torch.no_grad():
        fast(inputs[0])
        torch.cuda.synchronize()
        for _ in range(5):
            results.clear()
            for x, stream in zip(inputs, streams, strict=True):
                with torch.cuda.stream(stream):
                    results.append(fast(x + 1) - 1)
            torch.cuda.synchronize()
            for x, y in zip(inputs, results, strict=True):
                torch.testing.assert_close(y, function(x + 1) - 1)


def test_several_threads():
    def function(x):
        return torch.layer_norm(torch.relu(x), x.shape[-1:]) + x

    fast = vulkan(function, dynamic=False)
    shape = (61, 89)
    with torch.no_grad():
        fast(randn(*shape))

    def work(seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                x = torch.randn(shape, device="cuda", generator=generator)
                torch.testing.assert_close(fast(x), function(x))

    in_threads(work)


def test_native_parts_between_engines():
    def function(x):
        y = torch.relu(x) @ x.t()
        return torch.linalg.matrix_exp(0.01 * y + torch.eye(x.shape[0], device=x.device)) * 2 + y

    with torch.no_grad():
        x = randn(17, 5)
        torch.testing.assert_close(vulkan(function)(x), function(x), rtol=1e-4, atol=1e-4)
