"""Attention as PyTorch leaves it in graphs of CUDA tensors, and its gradients. The graphs are made by
hand, of tensors in memory: no GPU is needed."""

from operator import getitem

import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_vulkan import compilations
from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo.backend import compile_graph_module

from parity import tensor

aten = torch.ops.aten
FORMS = ["flash", "efficient", "cudnn"]
PADDED = 32  # efficient attention's rows of sums are a multiple of that long


def graph_of(op, args, kwargs):
    """One call whose tensors are placeholders, all of its tensors returned."""
    graph, mode = fx.Graph(), FakeTensorMode()

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        node = graph.placeholder(f"v{len(graph.nodes)}")
        node.meta["val"] = mode.from_tensor(value)
        return node

    args, kwargs = [leaf(a) for a in args], {k: leaf(v) for k, v in kwargs.items()}
    call = graph.call_function(op, tuple(args), kwargs)
    with mode:  # shapes by the functions for CUDA, which know these operators alone
        fakes = fx.node.map_arg((tuple(args), kwargs),
                                lambda n: torch.empty_like(n.meta["val"], device="cuda"))
        call.meta["val"] = tuple(
            torch.empty_strided(v.shape, v.stride(), dtype=v.dtype)
            if isinstance(v, torch.Tensor) else v for v in op(*fakes[0], **fakes[1]))
    results = []
    for i, value in enumerate(call.meta["val"]):
        if isinstance(value, torch.Tensor) and value.numel():
            results.append(graph.call_function(getitem, (call, i)))
            results[-1].meta["val"] = value
    graph.output(tuple(results))
    return fx.GraphModule({}, graph)


def run(op, args, **kwargs):
    compilations.clear()
    options = {"min_block_size": 1, "pass_through_build_failures": True}
    compiled = compile_graph_module(graph_of(op, args, kwargs), "inference",
                                    Settings.from_options(options), set())
    results = compiled([v.clone() for v in (*args, *kwargs.values())
                        if isinstance(v, torch.Tensor)])
    (made,) = compilations.compilations()
    assert not any("attention" in n.op for n in made.native), made.native
    assert made.covered_nodes
    return results


def operands(dtype=torch.float32, queries=29, keys=41, kv_heads=3):
    return (tensor(2, 3, queries, 64, dtype=dtype), tensor(2, kv_heads, keys, 64, seed=1, dtype=dtype),
            tensor(2, kv_heads, keys, 64, seed=2, dtype=dtype))


def log_sums(q, k, bias=None, causal=False):
    scores = q.double() @ k.double().mT / 8
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf)
    return scores.logsumexp(-1).float()


def stored(form, sums):
    """The log-sum-exp as the kernels of a form leave it."""
    if form == "efficient":
        return F.pad(sums, (0, -sums.shape[-1] % PADDED), value=torch.inf)
    return sums[..., None] if form == "cudnn" else sums


def near(actual, expected, dtype):
    limit = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_results(device, form, causal, dtype):
    q, k, v = operands(dtype)
    bias = [] if form == "flash" else [None, True]
    op = getattr(aten, f"_scaled_dot_product_{form}_attention").default
    out, sums, *state = run(op, (q, k, v, *bias), is_causal=causal)
    near(out, F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal),
         dtype)
    wanted = log_sums(q, k, causal=causal)
    torch.testing.assert_close(sums[:, :, :29].reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    assert sums.shape == stored(form, wanted).shape
    assert state and not any(s.any() for s in state)


def gradients(form, q, k, v, grad, bias, causal, wanted_of_bias=False):
    zero = torch.zeros((), dtype=torch.int64)
    out = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)
    sums = stored(form, log_sums(q, k, bias, causal))
    if form == "efficient":
        args = (grad, q, k, v, bias, out, sums, zero, zero, 0.0,
                [True, True, True, wanted_of_bias], causal)
    elif form == "cudnn":
        args = (grad, q, k, v, out, sums, zero, zero, bias, None, None, q.shape[2], k.shape[2], 0.0,
                causal)
    else:
        seed = torch.zeros(2, dtype=torch.uint64)
        args = (grad, q, k, v, out, sums, None, None, q.shape[2], k.shape[2], 0.0, causal, seed,
                torch.zeros((), dtype=torch.uint64))
    return run(getattr(aten, f"_scaled_dot_product_{form}_attention_backward").default, args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_gradients(device, form, causal, dtype):
    q, k, v = operands(dtype)
    grad = tensor(2, 3, 29, 64, seed=3, dtype=dtype)
    doubles = [t.double().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*doubles, is_causal=causal)
    expected = torch.autograd.grad(out, doubles, grad.double())
    for actual, wanted in zip(gradients(form, q, k, v, grad, None, causal), expected, strict=True):
        near(actual, wanted, dtype)


@pytest.mark.parametrize("shape", [(2, 3, 29, 41), (2, 1, 29, 41), (1, 1, 1, 41)])
@pytest.mark.parametrize("form", ["efficient", "cudnn"])
def test_gradients_with_a_bias(device, form, shape):
    q, k, v = operands()
    grad, bias = tensor(2, 3, 29, 64, seed=3), tensor(*shape, seed=4)
    doubles = [t.double().requires_grad_() for t in (q, k, v, bias)]
    out = F.scaled_dot_product_attention(*doubles[:3], doubles[3])
    expected = torch.autograd.grad(out, doubles, grad.double())
    actual = gradients(form, q, k, v, grad, bias.expand(2, 3, 29, 41), False, True)
    for a, wanted in zip(actual[:3], expected, strict=False):
        near(a, wanted, torch.float32)
    if form == "efficient":
        near(actual[3].sum_to_size(shape), expected[3], torch.float32)


def test_dropout_stays_native():
    """It draws random numbers; its state is what was drawn from."""
    q, k, v = operands()
    module = graph_of(aten._scaled_dot_product_flash_attention.default, (q, k, v, 0.5), {})
    compilations.clear()
    compile_graph_module(module, "inference", Settings.from_options({"min_block_size": 1}), set())
    (made,) = compilations.compilations()
    assert any("random" in n.reason for n in made.native)
    assert not any(n.target is aten.zeros.default for n in module.graph.nodes)
