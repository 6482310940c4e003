"""Each family at the sizes where it takes another kernel, and at their neighbours and primes: the sizes
are read from the engines, so that they are those of this device's tactics."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo import backend
from torch_vulkan._engines.engine import Engine
from torch_vulkan._fx import engine_call
from torch_vulkan._torch.kept_composites import keep_composites

from marks import slow_but, turns
from parity import PRIMES, tensor

pytestmark = pytest.mark.usefixtures("tactics_of")

OPTIONS = {"min_block_size": 1, "require_full_compilation": True, "optimization_level": 0,
           "pass_through_build_failures": True, "cache_built_engines": False,
           "reuse_cached_engines": False}


@dataclass
class Family:
    """A function of tensors of size n, from 1 to `most`."""

    function: Callable
    make: Callable
    most: int = 4096


def rows(n):
    return (tensor(3, n),)


def columns(n):
    return (tensor(n, 5),)


FAMILIES = {
    "pointwise": Family(lambda x: torch.exp(x) * 2 - x, rows),
    "softmax": Family(lambda x: x.softmax(-1), rows),
    "softmax_of_columns": Family(lambda x: x.log_softmax(0), columns),
    "layer_norm": Family(lambda x: F.layer_norm(x, x.shape[-1:]), rows),
    "group_norm": Family(lambda x: F.group_norm(x, 3), lambda n: (tensor(2, 6, n),)),
    "sum": Family(lambda x: (x.sum(-1), x.amax(-1)), rows, 20000),
    "sum_of_columns": Family(lambda x: x.sum(0), columns, 20000),
    "var": Family(lambda x: x.var(-1), rows),
    "argmax": Family(lambda x: x.argmax(-1), rows, 20000),
    "cumsum": Family(lambda x: x.cumsum(-1), rows),
    "sort": Family(lambda x: torch.sort(x, stable=True), rows),
    "topk": Family(lambda x: x.topk(min(7, x.shape[-1])), rows),
    "median": Family(lambda x: x.median(-1)[0], rows),
    "index_add": Family(lambda x, i: torch.zeros(11, 5, dtype=x.dtype).index_add(0, i, x),
                        lambda n: (tensor(n, 5), tensor(n, dtype=torch.int64, low=0, high=11))),
    "transposed": Family(lambda x: x.t().contiguous(), columns),
    "matmul_terms": Family(torch.matmul, lambda n: (tensor(37, n), tensor(n, 41, seed=1)), 300),
    "matmul_rows": Family(torch.matmul, lambda n: (tensor(n, 41), tensor(41, 64, seed=1)), 1024),
    "matmul_columns": Family(torch.matmul, lambda n: (tensor(37, 64), tensor(64, n, seed=1)), 1024),
    "convolution": Family(lambda x, w: F.conv2d(x, w, padding=1),
                          lambda n: (tensor(1, n, 9, 7), tensor(n, n, 3, 3, seed=1)), 128),
    "image": Family(lambda x, w: F.conv2d(x, w, padding=1),
                    lambda n: (tensor(1, 3, n, 7), tensor(5, 3, 3, 3, seed=1)), 512),
    "attention": Family(F.scaled_dot_product_attention,
                        lambda n: tuple(tensor(1, 2, n, 16, seed=s) for s in range(3)), 512),
    "fourier": Family(lambda x: torch.view_as_real(torch.fft.rfft(x)), rows, 4096),
}


def build(family: Family, args):
    """(what runs it, the names of its tactics)."""
    calls = []
    with torch.no_grad(), keep_composites():
        module = make_fx(lambda *given: tuple(leaves(family.function(*given))), tracing_mode="fake",
                         decomposition_table=backend.decompositions())(*args)
    with engine_call.collected(calls):
        compiled = backend.compile_graph_module(module, "inference",
                                                Settings.from_options(OPTIONS), set())
    names = [layer["tactic"] for call in calls
             for layer in Engine(call.vke(), call.engine.device()).info()["layers"]]
    return compiled, tuple(names)


def switches(family: Family) -> list[int]:
    """Sizes that take other tactics than the one before, between powers of two that differ."""
    known = {}

    def at(n):
        if n not in known:
            known[n] = build(family, family.make(n))[1]
        return known[n]

    found = []
    powers = [1 << k for k in range(int(math.log2(family.most)) + 1)]
    for low, high in zip(powers, [*powers[1:], family.most], strict=True):
        while low + 1 < high and at(low) != at(high):
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle) != at(low) else (middle, high)
        if at(low) != at(high):
            found.append(high)
    return found


def leaves(result):
    return torch.utils._pytree.tree_leaves(result)


def check_size(family: Family, n: int) -> None:
    args = family.make(n)
    exact = family.function(*(a.double() if a.is_floating_point() else a for a in args))
    limit = 3e-6 * math.sqrt(n + 32)
    for actual, wanted in zip(leaves(build(family, args)[0](list(args))), leaves(exact), strict=True):
        if not actual.is_floating_point():
            assert torch.equal(actual, wanted), n
            continue
        torch.testing.assert_close(actual.double(), wanted.double(), rtol=limit, atol=limit,
                                   msg=lambda text: f"size {n}: {text}")


QUICK = ("softmax", "layer_norm", "sum", "matmul_rows", "transposed")


@turns(3)
@pytest.mark.parametrize("name", slow_but(QUICK, FAMILIES))
def test_sizes_around_switches(name):
    family = FAMILIES[name]
    around = {n + d for n in switches(family) for d in (-1, 0, 1)}
    for n in sorted(n for n in {*around, *PRIMES[2::2], 1031} if 1 <= n <= family.most):
        check_size(family, n)


def test_switches_are_found():
    """Kernels for short rows are others than for long ones, whatever the device."""
    assert any(switches(FAMILIES[name]) for name in ("matmul_rows", "sum", "softmax"))
