"""What is traced in place of PyTorch's own, below every table of decompositions. Operators stay
whole that PyTorch takes apart: resizing has one kernel here, and index arithmetic there; attention
of a GPU's tensors may be traced as its pieces, in float32, which a real call would not run.
Reflectors are taken apart before PyTorch's gradient of them is. Recurrent networks are not taken
apart into their steps; fused steps of optimizers are, into operators on each tensor."""

import contextlib
import functools
import threading

import torch
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size

from .._native import C
from . import fused_optimizers, recurrent, reflectors

aten = torch.ops.aten

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_lock = threading.RLock()


@functools.cache
def _resizes() -> list[str]:
    """The operators with a converter of a form that takes scale factors."""
    names = (row["op"] for row in C.supported_ops())
    return [name.removeprefix("aten::").removesuffix(".vec") for name in names
            if name.endswith(".vec")]


def kept_resizes() -> set:
    """What of resizing has a table's decomposition as well, which is not to be used."""
    packets = (getattr(aten, name, None) for name in _resizes())
    return {packet.vec for packet in packets if packet is not None}


def _by_size(operator):
    """The form that takes a list of scale factors, by the one that takes sizes."""
    def resize(input, output_size, *rest):
        *corners, factors = rest
        sizes = upsample_compute_output_size(input.size(), output_size, factors)
        if any(isinstance(n, int) and n == 0 for n in input.shape[:2]):
            return input.new_empty((*input.shape[:2], *sizes))  # what its shape function refuses
        return operator(input, sizes, *corners, *(factors or [None] * len(sizes)))
    return resize


def _gradient(grad_output, output_size, input_size, *rest):
    """Of symbolic sizes, too, which PyTorch's own shape functions of gradients are not for."""
    memory_format = torch.contiguous_format
    if grad_output.dim() == 4:
        memory_format = torch._prims_common.suggest_memory_format(grad_output)
    return grad_output.new_empty(input_size).contiguous(memory_format=memory_format)


@torch.library.custom_op("torch_vulkan::scaled_dot_product_attention", mutates_args=())
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              attn_mask: torch.Tensor | None, is_causal: bool, scale: float | None,
              enable_gqa: bool) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention without dropout, laid out as PyTorch's
    fused kernels leave it: the rows of all heads side by side."""
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
    return result.transpose(-3, -2).contiguous().transpose(-3, -2).clone()


@attention.register_fake
def _(query, key, value, attn_mask, is_causal, scale, enable_gqa):
    *batch, heads = query.shape[:-2] if enable_gqa else torch.broadcast_shapes(
        query.shape[:-2], key.shape[:-2], value.shape[:-2])
    shape = (*batch, query.shape[-2], heads, value.shape[-1])
    return query.new_empty(shape).transpose(-3, -2)


def _keeps_attention(query):
    """On a CPU the traced graph holds the fused operator that eager calls."""
    return query.device.type != "cpu"


def traced_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *,
                     scale=None, enable_gqa=False):
    """In place of scaled_dot_product_attention while a graph is traced."""
    operands = [query, key, value, *([] if attn_mask is None else [attn_mask])]
    needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in operands)
    if dropout_p or needs_gradient or query.dim() < 3 or not _keeps_attention(query):
        return aten.scaled_dot_product_attention.default._op_dk(
            DispatchKey.CompositeImplicitAutograd, query, key, value, attn_mask, dropout_p,
            is_causal, scale=scale, enable_gqa=enable_gqa)
    return attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)


def use_own_operators(module: torch.fx.GraphModule) -> None:
    """What stays native of what was kept whole becomes PyTorch's own operators, which programs
    without Python know, too."""
    graph = module.graph

    def call(node, target, *args, **kwargs):
        result = graph.call_function(target, args, kwargs)
        given, named = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with node.meta["val"].fake_mode:
            result.meta = {**node.meta, "val": target(*given, **named)}
        return result

    own = torch.ops.torch_vulkan.scaled_dot_product_attention.default
    nodes = graph.find_nodes(op="call_function", target=own)
    for node in nodes:
        *operands, is_causal, scale, enable_gqa = node.args
        with graph.inserting_before(node):
            result = call(node, aten.scaled_dot_product_attention.default, *operands, 0.0,
                          is_causal, scale=scale, enable_gqa=enable_gqa)
            result = call(node, aten.transpose.int, result, -3, -2)
            result = call(node, aten.clone.default, result, memory_format=torch.contiguous_format)
            result = call(node, aten.transpose.int, result, -3, -2)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    changed = bool(nodes)
    for node in graph.nodes:
        if node.op != "call_function" or (plain := recurrent.plain(node)) is None:
            continue
        node.target, node.args = plain
        changed = True
        for result in [*node.users]:  # by steps in memory, also of batch_first
            with graph.inserting_after(result):
                dense = graph.call_function(aten.clone.default, (result,),
                                            {"memory_format": torch.contiguous_format})
            dense.meta = dict(result.meta)
            result.replace_all_uses_with(dense, delete_user_cb=lambda user, dense=dense:
                                         user is not dense)
    if changed:
        module.recompile()


def _replacements():
    """(overload, keys whose kernels go, what takes their place or None)."""
    yield aten.scaled_dot_product_attention.default, _KEYS, traced_attention
    yield reflectors.REPLACEMENT
    yield from _recurrent()
    for operator, traced in fused_optimizers.TRACED.items():
        yield operator, (DispatchKey.Autograd,), traced
    for name in _resizes():
        packet = getattr(aten, name, None)
        if packet is None:
            continue
        yield packet.default, _KEYS, None
        yield packet.vec, _KEYS, _by_size(packet.default)
        yield getattr(aten, f"{name}_backward").default, (DispatchKey.Meta,), _gradient


def _recurrent():
    return ((op, _KEYS, traced) for op, traced in recurrent.TRACED.items())


def keep_composites():
    """While it lasts, the operators above are traced as they are said to be."""
    return _replaced(_replacements)


def keep_recurrent():
    """The same of recurrent networks alone: for a capture that they would fix the length of."""
    return _replaced(_recurrent)


@contextlib.contextmanager
def _replaced(replacements):
    with _lock:
        saved = {}
        try:
            for overload, keys, replacement in replacements():
                saved[overload] = dict(overload.py_kernels)
                for key in keys:
                    overload.py_kernels.pop(key, None)
                    if replacement is not None:
                        overload.py_kernels[key] = replacement
                overload._dispatch_cache.clear()
            yield
        finally:
            for overload, kernels in saved.items():
                overload.py_kernels.clear()
                overload.py_kernels.update(kernels)
                overload._dispatch_cache.clear()
