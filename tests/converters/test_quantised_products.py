"""Quantised tensors: what they are translated from, and products that read them as they are packed.
"""

import os
import subprocess
import sys

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 (registers quantized_decomposed)
from torch import nn
from torch.nn import functional

import torch_vulkan as tv

from marks import turns
from parity import OPTIONS, check, compare, tactics_taken, tensor

quantized = torch.ops.quantized_decomposed
dequantize = torch.ops.torch_vulkan.dequantize
AHEAD = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0,
         "pass_through_build_failures": True}


class Held(nn.Module):
    """A function of an input and of constants."""

    def __init__(self, function, *constants):
        super().__init__()
        self.function = function
        for i, constant in enumerate(constants):
            self.register_buffer(f"c{i}", constant)

    def forward(self, x):
        return self.function(x, *self.buffers())


def check_held(function, constants, *cases, length=1, inputs=None):
    """Compares with eager, of constants: every product reads them as they are packed."""
    module = Held(function, *constants)
    program = tv.compile(module, inputs=inputs or [cases[0]], **AHEAD)
    for x in cases:
        with torch.no_grad():
            compare(program(x), module(x), length)
    tactics = [layer["tactic"] for engine in tv.engines(program)
               for layer in engine.info()["layers"] if layer["tactic"].startswith("matmul")]
    assert tactics and all(name.startswith("matmul_quantised") for name in tactics), tactics


def scales(*shape):
    return tensor(*shape, seed=3).abs() / 100 + 0.001


def integers(*shape, dtype=torch.int8):
    info = torch.iinfo(dtype)
    return tensor(*shape, dtype=dtype, low=info.min, high=info.max + 1, seed=1)


PROBLEMS = [  # rows of x, n, k, group
    (1, 37, 64, 64), (1, 256, 384, 32), (2, 40, 96, 16), (5, 11, 60, 20), (16, 41, 130, 130),
    (37, 96, 640, 64), (3, 53, 1088, 1088), (7, 16, 192, 96)]


@turns(5, each=("bits", "zero", "tactics_of"))
@pytest.mark.parametrize(("m", "n", "k", "group"), PROBLEMS)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("zero", [False, True])
def test_products(m, n, k, group, bits, zero):
    packed = integers(n, k) if bits == 8 else integers(n, k // 2, dtype=torch.uint8)
    zeros = [tensor(n, k // group, dtype=torch.uint8, low=0, high=16, seed=5)] if zero else []

    def product(x, packed, scale, zero=None):
        return functional.linear(x, dequantize(packed, scale, zero, bits, x.dtype))

    check_held(product, [packed, scales(n, k // group), *zeros], tensor(m, k), length=16 * k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bits", [8, 4])
def test_products_of_16_bits(dtype, bits):
    """Weights are not rounded to the dtype in between: no further from exact numbers than eager."""
    n, k = 72, 192
    packed = integers(n, k) if bits == 8 else integers(n, k // 2, dtype=torch.uint8)

    def product(x, packed, scale, bias):
        return functional.linear(x, dequantize(packed, scale, None, bits, x.dtype), bias)

    constants = [packed, scales(n, 6).to(dtype), tensor(n, seed=9).to(dtype)]
    x = tensor(3, k).to(dtype)
    module = Held(product, *constants)
    compiled = torch.compile(module, backend="vulkan", fullgraph=True, options=OPTIONS)
    exact = product(x.double(), packed, *[c.double() for c in constants[1:]])
    with torch.no_grad():
        got, eager = compiled(x), module(x)
    assert got.dtype == dtype
    assert (got.double() - exact).abs().max() <= 1.01 * (eager.double() - exact).abs().max()


@turns(3)
@pytest.mark.parametrize("tactics_of", ["gpu"], indirect=True)
@pytest.mark.parametrize(("rows", "k", "group", "bits"), [
    (1, 1056, 32, 4), (3, 1040, 16, 4), (8, 1056, 1056, 4), (5, 1040, 16, 8), (2, 1088, 64, 8)])
@pytest.mark.parametrize("zero", [None, torch.uint8, torch.int32])
def test_few_rows_of_a_gpu(tactics_of, rows, k, group, bits, zero):
    """With what is fused into the product, and where no tile of columns is whole."""
    n = 43
    packed = integers(n, k) if bits == 8 else integers(n, k // 2, dtype=torch.uint8)
    zeros = tensor(n, k // group, dtype=zero or torch.uint8, low=0, high=256, seed=5)
    constants = [packed, scales(n, k // group), tensor(n, seed=9), zeros][:3 + (zero is not None)]

    def product(x, packed, scale, bias, zero=None):
        return functional.linear(x, dequantize(packed, scale, zero, bits, x.dtype), bias).relu()

    module, x = Held(product, *constants), tensor(rows, k)
    with torch.no_grad(), tactics_taken() as names:
        got = torch.compile(module, backend="vulkan", fullgraph=True, options=OPTIONS)(x)
    exact = product(x.double(), packed, *(c.double() for c in constants[1:3]), *constants[3:])
    assert (got - exact).abs().max() <= 2e-6 * exact.abs().max()
    assert any(name.startswith("matmul_quantised_rows_") for name in names), names


def test_integers_are_exact():
    """Whole numbers in, whole numbers out: every product and sum is one that float32 holds."""
    packed, x = integers(24, 128), tensor(5, 128, low=-7, high=8, dtype=torch.int32).float()

    def product(x, packed, scale):
        return functional.linear(x, dequantize(packed, scale, None, 8, x.dtype))

    module = Held(product, packed, torch.full((24, 4), 0.25))
    compiled = torch.compile(module, backend="vulkan", fullgraph=True, options=OPTIONS)
    with torch.no_grad():
        assert torch.equal(compiled(x), x @ packed.float().t() / 4)


def test_rows_of_any_rank_and_number():
    def product(x, packed, scale, bias):
        weight = dequantize(packed, scale, None, 8, x.dtype)
        return functional.gelu(functional.linear(x, weight, bias)) + 1

    constants = [integers(48, 64), scales(48, 2), tensor(48, seed=2)]
    check_held(product, constants, tensor(2, 3, 64), length=64)
    check_held(product, constants, tensor(64), length=64)
    check_held(product, constants, tensor(4, 64), tensor(1, 64), tensor(33, 64), length=64,
               inputs=[tv.Input(min_shape=(1, 64), opt_shape=(4, 64), max_shape=(40, 64))])
    check_held(lambda x, *c: product(x.t(), *c), constants, tensor(64, 5), length=64)


@pytest.mark.parametrize("shared", [False, True])
def test_integers_without_scales_and_shared_ones(shared):
    """torchao's rows: a cast, a product, a multiplication behind it."""
    def of_cast(x, packed, scale):
        return (x @ packed.t().to(x.dtype)) * scale

    check_held(of_cast, [integers(40, 96), scales(40)], tensor(3, 96), length=9600)

    def of_tensor(x, packed, scale):
        return functional.linear(x, dequantize(packed, scale, None, 8, x.dtype))

    check_held(of_tensor, [integers(40, 96), scales(1 if shared else 40, 3)], tensor(3, 96),
               length=9600)


LIBRARY = {
    "tensor": lambda q: quantized.dequantize_per_tensor(q, 0.0371, 3, -128, 127, torch.int8),
    "channel": lambda q, s, z: quantized.dequantize_per_channel(q, s, z, 0, -128, 127, torch.int8),
    "no zero points": lambda q, s, _: quantized.dequantize_per_channel(
        q, s, None, 0, -128, 127, torch.int8),
    "input channel": lambda q, _, __, s: quantized.dequantize_per_channel(
        q, s, None, 1, -128, 127, torch.int8),
}


@pytest.mark.parametrize("form", LIBRARY)
@pytest.mark.parametrize("transposed", [False, True])
def test_torch_ao(form, transposed):
    n, k = 40, 64
    known = [integers(*((k, n) if transposed and form == "tensor" else (n, k))),
             scales(n), tensor(n, dtype=torch.int64, low=-9, high=9), scales(k)]
    count = {"tensor": 1, "channel": 3, "no zero points": 3, "input channel": 4}[form]

    def product(x, *constants):
        weight = LIBRARY[form](*constants)
        return x @ (weight if weight.shape[0] == x.shape[1] else weight.t())

    check_held(product, known[:count], tensor(3, k), length=16 * k)


def test_groups_of_torch_ao():
    def product(x, q, scale, zero):
        weight = quantized.dequantize_per_channel_group(q, scale, zero, -8, 7, torch.int8, 16,
                                                        torch.float32)
        return functional.linear(x, weight)

    constants = [tensor(24, 64, dtype=torch.int8, low=-8, high=8), scales(24, 4),
                 tensor(24, 4, dtype=torch.int32, low=-2, high=3)]
    check_held(product, constants, tensor(3, 64), length=64)


def test_alone():
    """Where no product reads it, a dequantised tensor is computed as it is written."""
    q = integers(6, 8, 10)
    check(lambda q: quantized.dequantize_per_tensor(q, 0.0371, 3, -128, 127, torch.int8), q)
    check(lambda q, s, z: quantized.dequantize_per_channel(q, s, z, 1, -128, 127, torch.int8),
          q, scales(8), tensor(8, dtype=torch.int64))
    check(lambda q, s, z: quantized.dequantize_per_tensor.tensor(q, s, z, 0, 255, torch.uint8),
          integers(6, 8, dtype=torch.uint8), scales(1)[0], torch.tensor(128))
    check(lambda q, s, z: dequantize(q, s, z, 4, torch.float32), integers(6, 16, dtype=torch.uint8),
          scales(6, 4), tensor(6, 4, dtype=torch.uint8, low=0, high=16))
    check(lambda q, s: dequantize(q, s, None, 4, torch.float16),
          integers(6, 16, dtype=torch.uint8), scales(1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_quantising(dtype):
    """Half to even after a multiplication by the reciprocal; saturated."""
    x = torch.cat([tensor(5, 32) * 3, torch.arange(-16, 16).float()[None] * 0.5]).to(dtype)
    check(lambda x: quantized.quantize_per_tensor(x, 0.037, 3, -128, 127, torch.int8), x)
    check(lambda x: quantized.quantize_per_tensor(x, 0.5, 128, 0, 255, torch.uint8), x)
    check(lambda x, s, z: quantized.quantize_per_tensor.tensor(x, s, z, 0, 255, torch.uint8), x,
          torch.tensor(0.041), torch.tensor(100))
    check(lambda x, s, z: quantized.quantize_per_channel(x, s, z, 0, -128, 127, torch.int8), x,
          scales(6), tensor(6, dtype=torch.int64))


def test_an_embedding_reads_packed_rows():
    def embed(i, q, scale, zero):
        return functional.embedding(i, dequantize(q, scale, zero, 4, torch.float32)) * 2

    module = Held(embed, integers(50, 16, dtype=torch.uint8), scales(50, 4),
                  tensor(50, 4, dtype=torch.uint8, low=0, high=16))
    program = tv.compile(module, inputs=[i := tensor(3, 5, dtype=torch.int64, low=0, high=50)],
                         **AHEAD)
    with torch.no_grad():
        compare(program(i), module(i))
    (engine,) = tv.engines(program)
    assert engine.info()["weight_program"] == []


ANOTHER_NUMBER = """
import torch, torch_vulkan as tv
import torch.ao.quantization.fx._decomposed
def function(x, q, s):
    return torch.ops.quantized_decomposed.dequantize_per_channel(
        q, s, None, 0, -128, 127, torch.int8) + x
inputs = [torch.ones(8, 12), torch.ones(8, 12, dtype=torch.int8), torch.ones(1)]
(native,) = tv.dry_run(function, inputs, min_block_size=1).data["operators"]
assert "float32[1], which is not one element for each block of" in native["reason"], native
"""


def test_scales_of_another_number_stay_pytorchs():
    """Its own error is what the user sees, and the report says which tensor is why. Without the
    check of what frontends make, which refuses such a graph as a whole."""
    subprocess.run([sys.executable, "-c", ANOTHER_NUMBER], check=True,
                   env={**os.environ, "TORCH_VULKAN_CHECK_OPERATORS": "0"})


@pytest.mark.parametrize("groups", [1, 4])
def test_scales_that_several_rows_share(groups):
    """Blocks of rows: no product reads these packed, and none may take them for rows' own."""
    def function(x, q, s):
        return x @ (q.float().view(3, 16, groups, -1) * s.view(3, 1, groups, 1)).view(48, -1).t()

    module = Held(function, integers(48, 64), scales(3, groups))
    x = tensor(5, 64)
    with torch.no_grad():
        compare(tv.compile(module, inputs=[x], **AHEAD)(x), module(x), 64)


def test_a_table_whose_scales_several_rows_share():
    def function(i, q, s):
        return functional.embedding(i, (q.float().view(3, 16, 64) * s.view(3, 1, 1)).view(48, 64))

    module = Held(function, integers(48, 64), scales(3))
    i = torch.tensor([0, 5, 16, 47])
    with torch.no_grad():
        compare(tv.compile(module, inputs=[i], **AHEAD)(i), module(i), 1)
