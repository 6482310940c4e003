"""Arithmetic on Python's numbers that torch.compile(dynamic=True) turned into tensors.

A float that a compiled function takes becomes a 0-d float64 tensor, arithmetic on it stays float64,
and only what meets a float32 tensor is converted - as eager does it with the number. Such nodes are
of no size, so PyTorch computes them, exactly as they stand; the engine takes the converted number.
"""

import torch
from torch import fx

from .._torch import compat
from .fx_nodes import has_effect
from .symbols import is_symbolic_scalar

_KEY = "torch_vulkan_host_scalar"


def is_host_scalar(node: fx.Node) -> bool:
    """True for a node that `mark_host_scalars` found to be arithmetic on numbers."""
    return node.meta.get(_KEY, False)


def mark_host_scalars(graph: fx.Graph) -> None:
    """Marks the nodes that compute 0-d float64 tensors on the CPU from nothing but such tensors and
    sizes, the conversions to other types that end them, and the arithmetic on sizes, as integer
    tensors, that begins them."""
    sizes: set[fx.Node] = set()  # 0-d integer tensors computed from sizes and literals
    for node in graph.nodes:
        if not _is_scalar_operator(node):
            continue
        inputs = node.all_input_nodes
        if not all(_is_number(n) or n in sizes for n in inputs):
            continue
        if _is_float64(node) or any(map(_is_float64, inputs)):
            node.meta[_KEY] = True
            _mark_sizes(inputs, sizes)
        elif node.target is torch.ops.aten.scalar_tensor.default or inputs:
            sizes.add(node)


def _mark_sizes(nodes: list[fx.Node], sizes: set[fx.Node]) -> None:
    for node in nodes:
        if node in sizes and not is_host_scalar(node):
            node.meta[_KEY] = True
            _mark_sizes(node.all_input_nodes, sizes)


def _is_scalar(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return (isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu"
            and value.layout == torch.strided)


def _is_float64(node: fx.Node) -> bool:
    return _is_scalar(node) and node.meta["val"].dtype == torch.float64


def _is_number(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return is_host_scalar(node) or is_symbolic_scalar(value) or (
        node.op == "placeholder" and _is_float64(node))


def _is_scalar_operator(node: fx.Node) -> bool:
    return (node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            and _is_scalar(node) and not has_effect(node)
            and not compat.depends_on_data(node.meta["val"]))
