"""Engines loaded with check_addresses: the same bits, and hostile ones are refused by ValueError.
(Kernels: tests/cpp/runtime/spirv/test_guard.cpp.)"""

import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from workloads.patience import patience


class Mixed(nn.Module):
    """Products, a convolution, attention, reductions, integers, a scatter and an index."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)
        self.linear = nn.Linear(7, 8)

    def forward(self, x, index):
        y = self.linear(self.conv(x).relu())
        z = nn.functional.scaled_dot_product_attention(y, y, y)
        s = z.softmax(-1).sum(2)
        counts = torch.zeros(11, dtype=torch.int64).scatter_add(0, index, index + 1)
        picked = s.flatten()[index] * counts[index].to(torch.float32)
        return z.half().float(), s, counts, picked


@pytest.fixture(scope="module")
def engine_file(tmp_path_factory):
    torch.manual_seed(5)
    model = Mixed().eval().requires_grad_(False)
    inputs = [torch.randn(2, 3, 5, 7), torch.randint(0, 11, (13,))]
    program = tv.compile(model, inputs, min_block_size=1)
    engine = max(tv.engines(program), key=lambda e: len(e.info()["layers"]))
    held = {tuple(p.shape): p for p in model.parameters()}
    engine.set_weights([held[tuple(w["shape"])] for w in engine.info()["weights"]])
    path = tmp_path_factory.mktemp("untrusted") / "net.vke"
    engine.save(path)
    return path


def inputs_of(engine):
    generator = torch.Generator().manual_seed(3)
    shapes = [([int(d) for d in b["shape"]], b["dtype"]) for b in engine.info()["inputs"]]
    return [torch.randint(0, 11, shape, generator=generator) if dtype == "int64" else
            torch.randn(shape, generator=generator) for shape, dtype in shapes]


def test_same_bits(engine_file):
    plain, checked = tv.Engine.load(engine_file), tv.Engine.load(engine_file, check_addresses=True)
    assert len(plain.info()["layers"]) > 5
    inputs = inputs_of(plain)
    for _ in range(2):  # recorded, and replayed
        want, got = plain.run(inputs), checked.run(inputs)
        assert want.keys() == got.keys()
        for name, value in want.items():
            assert torch.equal(value, got[name]), name


def vkexec(*arguments):
    return subprocess.run([Path(tv.__file__).parent / "bin" / "vkexec", *arguments],
                          capture_output=True, text=True, timeout=patience(300))


def test_vkexec_takes_the_flag(engine_file):
    run = vkexec(f"--loadEngine={engine_file}", "--checkAddresses", "--iterations=1",
                 "--duration=0", "--warmUp=0")
    assert run.returncode == 0, run.stderr
    wrong = vkexec("--onnx=net.onnx", "--checkAddresses")
    assert wrong.returncode == 2 and "--checkAddresses needs --loadEngine" in wrong.stderr
