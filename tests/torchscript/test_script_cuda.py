"""TorchScript modules on CUDA tensors: results, devices, order on streams, files.

Runs where CUDA and a Vulkan device are the same GPU, but for the last tests.
"""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from test_arguments import CASES, flat
from test_modules import Loop, Mlp, check, compiled, engines
from torch import nn

import torch_vulkan as tv

from helpers import exact_products, in_threads, shared_gpu
from workloads.networks import NETWORKS
from workloads.patience import patience

on_gpu = pytest.mark.skipif(not shared_gpu(), reason="no GPU that CUDA and Vulkan share")


@pytest.fixture(autouse=True)
def exact():
    torch.manual_seed(0)
    with exact_products():
        yield


def on(device, value):
    """The same nest of values with its tensors on the device."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), value)


def close(got, want, tolerance=1e-4):
    for g, w in zip(flat([got]), flat([want]), strict=True):
        if isinstance(w, torch.Tensor):
            assert g.device == w.device and g.dtype == w.dtype
            torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance)
        else:
            assert g == w


@on_gpu
@pytest.mark.parametrize("script", [False, True])
def test_straight_line(script):
    _, made = check(Mlp().cuda(), torch.randn(3, 7, device="cuda"), script=script)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # neither copies nor a way through the host
        assert made(torch.randn(3, 7, device="cuda")).device.type == "cuda"


@on_gpu
@pytest.mark.parametrize("name", [name for name in CASES if name != "random numbers"])
def test_programs(name):
    kind, example, count, others = CASES[name]
    source = torch.jit.script(kind().eval().cuda())
    made = tv.compile(source, inputs=[*on("cuda", example)], min_block_size=1,
                      optimization_level=0)
    assert engines(made) == count
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for given in (example, *others):
            close(made(*on("cuda", given)), source(*on("cuda", given)))


@on_gpu
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base, mask"])
def test_networks(name):
    from test_script_networks import Positional

    network = NETWORKS[name]
    inputs = [[*network.inputs(2, True, seed).values()] for seed in (0, 1)]
    module = Positional(network.make(True), [*network.inputs(2, True, 0)]).cuda()
    with torch.no_grad():
        source = torch.jit.trace(module, tuple(on("cuda", inputs[0])), check_trace=False,
                                 strict=False)
        made = tv.compile(source, inputs=on("cuda", inputs[0]), optimization_level=0)
        assert engines(made) == 1
        for given in inputs:
            close(made(*on("cuda", given)), source(*on("cuda", given)), 1e-3)


class Mixed(nn.Module):
    """Numbers of the host with tensors of the GPU, and a part on the host."""

    def forward(self, x, scale, table):
        y = torch.relu(x) * scale + 1
        rows = (table * 2 + 1).sum(0)
        return y * y, rows, y + rows.to(y.device), scale * 3


@on_gpu
def test_several_devices():
    x, scale = torch.randn(5, 7, device="cuda"), torch.tensor(3.0)
    source, made = compiled(Mixed(), x, scale, torch.randn(4, 7), script=True)
    assert engines(made)
    given = torch.randn(5, 7, device="cuda"), torch.tensor(-2.0), torch.randn(4, 7)
    close(made(*given), source(*given))
    assert [t.device.type for t in made(x, scale, torch.ones(4, 7))] == [
        "cuda", "cpu", "cuda", "cpu"]


@on_gpu
def test_arguments_on_another_device():
    x = torch.randn(3, 7)
    source, made = compiled(Mlp().cuda(), x.cuda())
    for module in (source, made):
        with pytest.raises(RuntimeError, match="same device"):
            module(x)
    close(made(x.cuda()), source(x.cuda()))


class Makes(nn.Module):
    """Tensors made where the argument is, at a place that is named, and from nothing."""

    def forward(self, x):
        here = torch.arange(x.shape[1], device=x.device) * 2 + x
        like = torch.ones_like(x) + here * float(x.is_cuda)
        return here, like * 3, torch.arange(4) * 2 + 1


@on_gpu
@pytest.mark.parametrize("first", ["cpu", "cuda"])
def test_a_program_moves(first):
    other = {"cpu": "cuda", "cuda": "cpu"}[first]
    x = torch.randn(3, 7)
    for module, script in ((Mlp(), False), (Makes(), True)):
        source, made = compiled(module.to(first), x.to(first), script=script)
        assert engines(made)
        for device in (other, first, other):
            source, made = source.to(device), made.to(device)
            given = x.to(device)
            close(made(given), source(given))
    assert {p.device.type for p in made.parameters()} <= {other}


@on_gpu
def test_results_of_no_argument():
    class Nothing(nn.Module):
        def forward(self, x):
            return torch.arange(x.shape[0], device="cuda") * 2 + 1

    x = torch.ones(6, device="cuda")
    _, made = compiled(Nothing(), x, script=True)
    assert engines(made) == 1
    rows = made(x)
    assert rows.device.type == "cuda" and rows.tolist() == [1, 3, 5, 7, 9, 11]


@on_gpu
def test_order_on_a_stream():
    """Kernels of CUDA's write the inputs before an engine and take its results after it."""
    source, made = compiled(Loop().cuda(), torch.randn(4, 6, device="cuda"), 3, script=True)
    got = want = torch.randn(4, 6, device="cuda")
    for step in range(50):
        torch.cuda._sleep(100_000)
        got = made(got * 0.5 + step, 3).clamp(-2, 2)
        want = source(want * 0.5 + step, 3).clamp(-2, 2)
    close(got, want)


@on_gpu
def test_several_streams_and_threads():
    source, made = compiled(Mlp().cuda(), torch.randn(3, 7, device="cuda"))

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(30):
                x = torch.randn(3, 7, device="cuda", generator=generator)
                torch.testing.assert_close(made(x), source(x), rtol=1e-4, atol=1e-5)

    in_threads(work)


READER = """
import sys, torch
torch.classes.load_library(sys.argv[1])
program = torch.jit.load(sys.argv[2])
given = torch.load(sys.argv[3])
assert next(program.parameters()).device.type == "cuda"
torch.save(program(given), sys.argv[4])
assert "torch_vulkan" not in sys.modules
"""


@on_gpu
def test_saved_from_cuda(tmp_path):
    x = torch.randn(3, 7, device="cuda")
    _, made = compiled(Mlp().cuda(), x)
    want = made(x)
    tv.save(made, tmp_path / "net.pt")
    torch.save(x, tmp_path / "given")
    assert torch.equal(tv.load(tmp_path / "net.pt")(x), want)
    library = Path(tv.cmake_prefix_path) / "lib" / "libtorch_vulkan.so"
    done = subprocess.run(
        [sys.executable, "-c", READER, library, tmp_path / "net.pt", tmp_path / "given",
         tmp_path / "got"], capture_output=True, text=True, timeout=patience(300))
    assert done.returncode == 0, done.stderr
    got = torch.load(tmp_path / "got")
    assert got.device == x.device and torch.equal(got, want)
    moved = tv.load(tmp_path / "net.pt").to("cpu")
    torch.testing.assert_close(moved(x.cpu()), want.cpu(), rtol=1e-4, atol=1e-5)


@on_gpu
def test_refit_on_cuda():
    x = torch.randn(3, 7, device="cuda")
    source, made = compiled(Mlp().cuda(), x)
    made(x)
    newer = {name: torch.randn(value.shape) for name, value in source.state_dict().items()}
    tv.refit(made, newer)
    other = Mlp().eval()
    other.load_state_dict(newer)
    close(made(x), other.cuda()(x))


# What needs no GPU: the meta device stands for another one.

def test_a_tensor_that_is_elsewhere():
    x = torch.randn(3, 7)
    _, made = compiled(Mlp(), x)
    engine = made.vulkan_engine_0
    fits = torch.ops.torch_vulkan.fits
    weights = [*made.parameters()]
    assert fits([x], engine, weights, None)
    assert fits([x], engine, weights, torch.device("cpu"))
    assert fits([x], engine)
    assert not fits([x.to("meta")], engine, weights, None)
    assert not fits([x], engine, [w.to("meta") for w in weights], None)
    assert not fits([x], engine, weights, torch.device("meta"))


def test_engines_that_depend_on_the_device_say_so():
    x = torch.randn(3, 7)
    _, made = compiled(Makes(), x, script=True)
    fits = made.graph.findAllNodes("torch_vulkan::fits", recurse=True)
    wanted = [[*node.inputs()][3].toIValue() for node in fits]
    assert torch.device("cpu") in wanted
    _, made = compiled(Mlp(), x)
    (node,) = made.graph.findAllNodes("torch_vulkan::fits", recurse=True)
    assert [*node.inputs()][3].toIValue() is None
