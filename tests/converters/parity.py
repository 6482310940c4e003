"""Parity of compiled functions with eager PyTorch, one line a case. Owns every tolerance.

Tolerances are torch.testing's defaults for the result's dtype. A result that sums many products or
elements states how many (`length`): both sides then round differently on the way, and the error
grows like sqrt(length) units of the accumulator's precision (float32, also for 16-bit results).
"""

import copy
import json
import math
from contextlib import contextmanager
from operator import getitem
from unittest import mock

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_vulkan import compilations, devices
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo.backend import compile_graph_module
from torch_vulkan._engines.engine import Engine
from torch_vulkan._fx import engine_call

on_cpu = pytest.mark.skipif(devices()[0].type != "cpu", reason="kernels of CPU drivers")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int8, torch.uint8)
PRIMES = (3, 5, 7, 11, 29, 37, 41, 89, 113)

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}


def tensor(*shape, dtype=torch.float32, low=-4, high=5, seed=0):
    """A reproducible tensor: normal values for floats, integers of [low, high), random bools."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    low = max(low, torch.iinfo(dtype).min)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def _leaves(result):
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _tolerance(dtype, length):
    rtol, atol = torch.testing._comparison.default_tolerances(dtype)
    if (dtype.is_floating_point or dtype.is_complex) and length > 1:
        grown = math.sqrt(length) * torch.finfo(torch.float32).eps
        rtol, atol = rtol + grown, max(atol, 4 * grown)
    return rtol, atol


def compare(actual, expected, length=1):
    """Raises AssertionError where values, shapes or dtypes differ."""
    actual, expected = _leaves(actual), _leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        rtol, atol = _tolerance(e.dtype, length)
        torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True)


def check_against_double(function, *args, **options):
    """As `check`, where eager rounds on the way to its 16-bit results and so may the engine: no
    error against float64 is above twice eager's largest."""
    compiled = _compiled(function, None, options)
    with torch.no_grad():
        exact = _leaves(function(*_as_double(args)))
        results, eager = _leaves(compiled(*copy.deepcopy(args))), _leaves(function(*args))
    for result, e, x in zip(results, eager, exact, strict=True):
        assert result.dtype == e.dtype and result.shape == e.shape
        limit = 2 * (e.double() - x).abs().max()
        torch.testing.assert_close(result.double(), x, rtol=0, atol=limit.item())
    _check_engines()


def check(function, *args, length=1, more=(), dynamic=None, double=False, **options):
    """Compiles `function` whole, runs it on `args` and on each of `more`, and compares with eager.

    Args:
        length: elements that one result sums up.
        more: further argument tuples, of other shapes where `dynamic`.
        double: compare with eager in float64, for 16-bit results that eager rounds on the way.
        options: further settings.
    """
    compiled = _compiled(function, dynamic, options)
    with torch.no_grad():
        for case in (args, *more):
            expected = (_in_double if double else _eager)(function, copy.deepcopy(case))
            compare(compiled(*copy.deepcopy(case)), expected, length)
    _check_engines()


@contextmanager
def tactics_taken():
    """A set that has the tactics of the engines that are called inside, when that is over."""
    calls, names = [], set()
    with engine_call.collected(calls):
        yield names
    names |= {layer["tactic"] for call in calls
              for layer in Engine(call.vke(), call.engine.device()).info()["layers"]}


@contextmanager
def only_tactic(name):
    """What is compiled inside has the tactic of this name wherever it applies, and some engine must
    have taken it."""
    def named(settings, *given, **kwargs):
        return json.dumps(json.loads(plain(settings, *given, **kwargs)) | {"tactics": [name]})

    plain = Settings.compiler_json
    with mock.patch.object(Settings, "compiler_json", named), tactics_taken() as taken:
        yield
    assert name in taken, f"{name} was refused, or is no tactic; taken were {sorted(taken)}"


def check_tactic(name, function, *args, **how):
    """As `check`, with the tactic of this name, which an engine must have taken."""
    with only_tactic(name):
        check(function, *args, **how)


def _compiled(function, dynamic, options):
    compilations.clear()
    return torch.compile(function, backend="vulkan", fullgraph=True, dynamic=dynamic,
                         options={**OPTIONS, **options})


def _check_engines():
    made = compilations.compilations()
    assert made and all(c.engines for c in made), "no engine was built"


def _eager(function, args):
    return function(*args)


def _as_double(args):
    return [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in args]


def _in_double(function, args):
    dtypes = [leaf.dtype for leaf in _leaves(function(*args))]
    return [leaf.to(dtype) for leaf, dtype in
            zip(_leaves(function(*_as_double(args))), dtypes, strict=True)]


def check_gradients(function, *args, length=1, double=False):
    """As `check`, for the gradients of every floating-point argument, both graphs whole. `double`:
    against float64, by what plain float32 sums of `length` terms promise."""
    def run(f, args=args):
        leaves = [a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor)
                  and a.is_floating_point() else a for a in args]
        outputs = [o for o in _leaves(f(*leaves)) if o.requires_grad]
        seeds = [tensor(*o.shape, dtype=o.dtype, seed=7 + i) for i, o in enumerate(outputs)]
        wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
        return torch.autograd.grad(outputs, wanted, seeds)

    expected = run(function)
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS)
    if double:
        for a, e, x in zip(run(compiled), expected, run(function, _as_double(args)), strict=True):
            plain = 2 * math.sqrt(length) * 2.0**-24 * x.abs().max()
            limit = max(plain, 2 * (e - x).abs().max())
            torch.testing.assert_close(a.double(), x, rtol=0, atol=limit.item())
    else:
        compare(run(compiled), expected, length)


def check_operator(operator, *args, length=1, **kwargs):
    """As `check`, for one operator exactly as it is named: no decomposition comes between."""
    compiled, inputs = compiled_operator(operator, *args, **kwargs)
    compare(compiled(inputs), operator(*args, **kwargs), length)


def compiled_operator(operator, *args, options=None, **kwargs):
    """One operator as a compiled graph, and what that takes: the tensors among its arguments."""
    assert isinstance(operator, torch._ops.OpOverload), "torch.ops.aten.x.default, not aten.x"
    graph, mode = fx.Graph(), FakeTensorMode()
    inputs = []

    def placeholder(arg):
        if not isinstance(arg, torch.Tensor):
            return arg
        node = graph.placeholder(f"x{len(inputs)}")
        node.meta["val"] = mode.from_tensor(arg)
        inputs.append(arg)
        return node

    nodes = torch.utils._pytree.tree_map(placeholder, (list(args), kwargs))
    fakes, fake_kwargs = torch.utils._pytree.tree_map(
        lambda n: n.meta["val"] if isinstance(n, fx.Node) else n, nodes)
    call = graph.call_function(operator, tuple(nodes[0]), nodes[1])
    with mode:
        call.meta["val"] = operator(*fakes, **fake_kwargs)
    results = [call]
    if isinstance(call.meta["val"], tuple):
        results = [graph.call_function(getitem, (call, i)) for i in range(len(call.meta["val"]))]
        for node, value in zip(results, call.meta["val"], strict=True):
            node.meta["val"] = value
    graph.output(tuple(results))
    module = fx.GraphModule({}, graph)
    settings = Settings.from_options({**OPTIONS, **(options or {})})
    return compile_graph_module(module, "inference", settings, set()), inputs
