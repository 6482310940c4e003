"""CUDA tensors: results, order with other work on the GPU, and the life of memory.

Everything here runs where CUDA and a Vulkan device are the same GPU.
"""

import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._device import cuda_memory, device_list
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from helpers import in_threads
from workloads.patience import patience


def _device() -> str:
    return device_list.spec_for(None, torch.device("cuda", 0))


def _linked() -> bool:
    if not torch.cuda.is_available():
        return False
    torch.zeros(1, device="cuda")
    return any("streams wait for" in line for line in tv.cuda_report(torch.device("cuda", 0)))


pytestmark = pytest.mark.skipif(not _linked(), reason="no GPU that CUDA and Vulkan share")


@pytest.fixture(autouse=True)
def shareable():
    torch._dynamo.reset()
    cuda_memory.allocate_shareable()
    with torch.no_grad():
        yield
    torch.cuda.synchronize()


def compiled(function):
    return torch.compile(function, backend="vulkan", options={"min_block_size": 1}, dynamic=False)


def chain(x):
    """Needs an order between its steps, and one with what writes x."""
    y = torch.relu(x) + 1
    return y * x - torch.softmax(y, -1)


def counts():
    return C.cuda_counts(_device())


@pytest.mark.parametrize("shape", [(1,), (7, 13), (113, 257), (0, 5), (3, 1, 89)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_results(shape, dtype):
    x = torch.randn(shape, device="cuda", dtype=dtype)
    y = compiled(chain)(x)
    assert y.device == x.device
    if dtype == torch.float32 or x.numel() == 0:
        torch.testing.assert_close(y, chain(x))
        return
    # Engines keep float32 between fused operators, eager rounds after each: neither is further from
    # float64 than eager's largest error, or one unit in the last place.
    exact = chain(x.double())
    limit = (chain(x) - exact).abs().max() + torch.finfo(dtype).eps * exact.abs()
    assert ((y - exact).abs() <= limit).all()


def test_tensors_that_are_not_dense_or_not_aligned():
    base = torch.randn(64, 67, device="cuda")
    fast = compiled(chain)
    for x in (base.t(), base[:, 1:], base[::2], base.flatten()[1:65]):
        torch.testing.assert_close(fast(x), chain(x))


def test_memory_of_several_segments():
    # A segment of torch's large pool is 20 MiB.
    for mebibytes in (12, 30, 90):
        x = torch.randn(mebibytes * 2**18 // 128, 128, device="cuda")
        torch.testing.assert_close(compiled(chain)(x), chain(x))
        del x
        torch.cuda.empty_cache()


def test_nothing_is_copied_in_expandable_segments():
    torch.cuda.empty_cache()
    fast = compiled(chain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(torch.randn(31, 37, device="cuda"))
    assert counts()["imports"] > 0


def test_memory_of_cuda_malloc_is_copied():
    fast = compiled(chain)
    torch.cuda.empty_cache()
    cuda_memory.set_allocator("expandable_segments:False")
    try:
        x = torch.randn(1031, 97, device="cuda")
        for _ in range(5):
            x += 1
            y = fast(x)
            x2 = x.clone()
            torch.testing.assert_close(y, chain(x2))
    finally:
        cuda_memory.set_allocator("expandable_segments:True")


def test_memory_of_the_pool_is_used_in_place():
    fast = compiled(chain)
    cuda_memory.set_allocator("expandable_segments:False")
    try:
        torch.cuda.empty_cache()
        with torch.cuda.use_mem_pool(tv.mem_pool()):
            for _ in range(3):
                x = torch.randn(1031, 97, device="cuda")
                y = torch.ops.aten.clone(x)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    torch.testing.assert_close(fast(y), chain(x))
        assert y.data_ptr() and C.cuda_finds(_device(), y.data_ptr(), y.nbytes)
        x = torch.randn(1 << 20, device="cuda")
        assert not C.cuda_finds(_device(), x.data_ptr(), x.nbytes)
    finally:
        cuda_memory.set_allocator("expandable_segments:True")


def test_order_with_kernels_before_and_after():
    fast = compiled(chain)
    x = torch.randn(257, 129, device="cuda")
    start = x.clone()
    fast(x)
    wanted, got = start.clone(), start.clone()
    for step in range(200):
        wanted = chain(wanted * 0.5 + step).clamp(-2, 2)
        got = fast(got * 0.5 + step).clamp(-2, 2)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_order_behind_long_work():
    """The stream is busy for longer than the host polls: the semaphore's path. How long a host
    takes to get there is nobody's promise, so the work grows until it was still running."""
    fast = compiled(chain)
    x = torch.zeros(512, 512, device="cuda")
    fast(x)
    before = counts()["semaphores"]
    for value in range(1, 13):
        torch.cuda._sleep(10_000_000 << value)  # 10 ms and more, in the end 20 s
        x.fill_(value)
        y = fast(x)
        x.fill_(-1)  # runs after the engine has read it
        torch.testing.assert_close(y, chain(torch.full_like(x, value)))
        if value >= 3 and counts()["semaphores"] > before:
            return
    pytest.fail("no call waited for a semaphore")


def test_back_to_back_calls_with_host_copies():
    """The serving loop: no kernel of CUDA's between the calls."""
    fast = compiled(chain)
    pinned_in = torch.empty(64, 97).pin_memory()
    pinned_out = torch.empty(64, 97).pin_memory()
    x = torch.empty(64, 97, device="cuda")
    for step in range(300):
        pinned_in.fill_(float(step))
        x.copy_(pinned_in, non_blocking=True)
        pinned_out.copy_(fast(x), non_blocking=True)
        torch.cuda.synchronize()
        torch.testing.assert_close(pinned_out, chain(pinned_in))


def test_several_streams():
    fast = compiled(chain)
    xs = [torch.randn(129, 65, device="cuda") for _ in range(4)]
    streams = [torch.cuda.Stream() for _ in xs]
    fast(xs[0])
    torch.cuda.synchronize()
    for _ in range(25):
        outs = []
        for x, stream in zip(xs, streams, strict=True):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                x.mul_(0.5).add_(0.25)
                outs.append((fast(x), chain(x)))
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        for got, wanted in outs:
            torch.testing.assert_close(got, wanted)


def test_results_that_another_stream_uses():
    fast = compiled(chain)
    x = torch.randn(512, 512, device="cuda")
    side = torch.cuda.Stream()
    wanted = chain(x) + 1
    for _ in range(50):
        y = fast(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(500_000)
            z = y + 1
        y.record_stream(side)
        del y
        fast(x * 0)  # takes the memory of y only when the other stream is done with it
        torch.cuda.current_stream().wait_stream(side)
        torch.testing.assert_close(z, wanted)


def test_several_threads():
    fast = compiled(chain)
    fast(torch.randn(65, 33, device="cuda"))

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                x = torch.randn(65, 33, device="cuda", generator=generator)
                torch.testing.assert_close(fast(x), chain(x))

    in_threads(work)


def test_empty_cache_between_calls():
    """Memory that torch gives back and maps again is not what was imported."""
    fast = compiled(chain)
    for rows in (4099, 1031, 70001, 1031, 4099):
        for _ in range(3):
            x = torch.randn(rows, 64, device="cuda")
            torch.testing.assert_close(fast(x), chain(x))
            del x
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def test_freed_tensors():
    fast = compiled(chain)
    for step in range(100):
        x = torch.full((733, 257), float(step), device="cuda")
        y = fast(x)
        del x
        filled = torch.full((733, 257), -7.0, device="cuda")  # may take the place of x
        torch.testing.assert_close(y, chain(torch.full((733, 257), float(step), device="cuda")))
        del filled


def test_weights_that_change():
    layer = torch.nn.Linear(67, 41).cuda()
    fast = compiled(layer)
    x = torch.randn(5, 67, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(fast(x), layer(x), rtol=1e-4, atol=1e-4)
        layer.weight.mul_(1.5)
        layer.bias.add_(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_attention_is_trained(dtype):
    """By whichever of CUDA's kernels torch chooses: both directions are in engines."""
    operands = [torch.randn(2, 3, 61, 64, device="cuda", dtype=dtype) for _ in range(3)]
    doubles = [t.double().requires_grad_() for t in operands]
    compilations.clear()
    with torch.enable_grad():
        given = [t.requires_grad_() for t in operands]
        attend = F.scaled_dot_product_attention
        attention = compiled(lambda q, k, v: attend(q, k, v, is_causal=True))
        found = torch.autograd.grad(attention(*given).sum(), given)
        exact = F.scaled_dot_product_attention(*doubles, is_causal=True).sum()
        wanted = torch.autograd.grad(exact, doubles)
    limit = 1e-4 if dtype == torch.float32 else 2e-2
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=limit, atol=limit)
    native = [n for graph in compilations.compilations() for n in graph.native]
    assert not any("attention" in n.op for n in native), native


def test_capture_is_refused():
    fast = compiled(chain)
    x = torch.randn(31, 17, device="cuda")
    wanted = fast(x)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="cannot be captured"):
        with torch.cuda.graph(graph):
            fast(x)
    torch.testing.assert_close(fast(x), wanted)


def test_tensors_of_another_device():
    fast = compiled(lambda x, scale: chain(x) * scale)
    x, scale = torch.randn(31, 17, device="cuda"), torch.tensor(3.0)
    torch.testing.assert_close(fast(x, scale), chain(x) * scale)


def test_a_stand_alone_engine_answers_on_the_device_of_its_inputs():
    calls = []
    x = torch.randn(5, 7, device="cuda")
    with engine_call.collected(calls):
        compiled(chain)(x)
    (y,) = tv.Engine(calls[0].vke(), calls[0].engine.device()).run([x]).values()
    torch.testing.assert_close(y, chain(x))


@pytest.mark.parametrize("mode", ["semaphores", "staged", "host"])
def test_fallbacks(mode):
    """The same tests the other ways; where one is chosen by hand."""
    names = ["results", "order_with", "order_behind", "back_to_back", "several_streams",
             "several_threads", "weights"]
    if mode == "host":
        names = ["results and not weights"]
    environment = os.environ | {"TORCH_VULKAN_CUDA": mode, "TV_CUDA_FALLBACK_TEST": "1"}
    if os.environ.get("TV_CUDA_FALLBACK_TEST"):
        pytest.skip("inside of such a run")
    if mode == "host":
        code = ("import torch, torch_vulkan as tv; x = torch.randn(65, 33, device='cuda'); "
                "f = lambda x: torch.relu(x) * 2 + 1; "
                "g = torch.compile(f, backend='vulkan', options={'min_block_size': 1}); "
                "torch.testing.assert_close(g(x), f(x)); print('right')")
        command = [sys.executable, "-c", code]
    else:
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", __file__,
                   "-k", " or ".join(names)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True,
                         timeout=patience(300),
                         check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert ("right" if mode == "host" else "passed") in ran.stdout
