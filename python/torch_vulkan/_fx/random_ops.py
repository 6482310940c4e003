"""Random numbers are PyTorch's, and what draws them reads of a tensor no more than how it lies in
memory. Given other memory that lies so, it waits for no engine and cuts none in two; a dropout is
its mask, drawn, and a product that an engine computes."""

import operator

import torch
from torch import fx

from .._torch import compat
from .._torch.sizes import Sizes
from .fx_nodes import has_effect

aten = torch.ops.aten

_KEY = "torch_vulkan_random_op_memory"

# Their first argument says shape, dtype, device and strides of the result.
_BY_LOOK = {
    aten.rand_like.default, aten.randn_like.default, aten.randint_like.default,
    aten.randint_like.low_dtype, aten.bernoulli.p, aten.uniform.default,
    aten.normal_functional.default, aten.exponential.default, aten.log_normal.default,
    aten.cauchy.default, aten.geometric.default, aten.random.default, aten.random.to,
    getattr(aten.random, "from"),
}

_EMPTY = {aten.empty_like.default, aten.empty.memory_format, aten.empty_strided.default,
          aten.empty_permuted.default, aten.new_empty.default, aten.new_empty_strided.default}


def is_random_op_memory(node: fx.Node) -> bool:
    """True for memory that only an operator with random numbers reads, or looks at."""
    return node.meta.get(_KEY, False)


def detach_random_ops(graph: fx.Graph) -> None:
    """Makes operators that draw random numbers independent of the tensors that they look at. They
    draw what they would have drawn, in the same order."""
    sizes, looked_at = Sizes(graph), []
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _BY_LOOK:
            if (memory := _memory_like(graph, node, sizes)) is not None:
                looked_at.append(node.args[0])
                node.update_arg(0, memory)
        elif node.target is aten.native_dropout.default:
            _take_dropout_apart(graph, node, sizes)
    unread = set(looked_at)
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.users or has_effect(node):
            continue
        if node in unread or node.target in _EMPTY:  # that was made to be drawn into
            unread.update(node.all_input_nodes)
            graph.erase_node(node)


def _memory_like(graph: fx.Graph, node: fx.Node, sizes: Sizes) -> fx.Node | None:
    """New memory, before `node`, that looks as its first argument does; None if that is an input
    of the graph, or where its sizes are known only when the graph runs."""
    seen = node.args[0]
    if not isinstance(seen, fx.Node) or seen.op == "placeholder":
        return None
    value = seen.meta.get("val")
    # CUDA's kernels draw by groups of neighbours where these lie at multiples of 16 bytes.
    if (not isinstance(value, torch.Tensor) or compat.depends_on_data(value)
            or value.layout != torch.strided or not _is_zero(value.storage_offset())):
        return None
    lengths = [sizes.make(v) if isinstance(v, torch.SymInt) else v
               for v in (*value.shape, *value.stride())]
    if any(length is None for length in lengths):
        return None
    with graph.inserting_before(node):
        memory = graph.call_function(
            aten.empty_strided.default, (lengths[:value.dim()], lengths[value.dim():]),
            {"dtype": value.dtype, "device": value.device})
    memory.meta["val"] = value
    memory.meta[_KEY] = True
    return memory


def _is_zero(number) -> bool:
    return isinstance(number, int) and number == 0


def _take_dropout_apart(graph: fx.Graph, node: fx.Node, sizes: Sizes) -> None:
    given, p, train = node.args
    if train is False or not 0 < p < 1 or not given.meta["val"].is_floating_point():
        return
    memory = _memory_like(graph, node, sizes)
    if memory is None:
        return
    node.update_arg(0, memory)
    users = [user for user in node.users if user.args[1] == 0]
    if not users:
        return
    with graph.inserting_after(node):
        mask = graph.call_function(operator.getitem, (node, 1))
    with graph.inserting_after(mask):
        kept = graph.call_function(aten.mul.Tensor, (given, mask))
    with graph.inserting_after(kept):
        scaled = graph.call_function(aten.mul.Tensor, (kept, 1 / (1 - p)))
    result, drawn = node.meta["val"]
    mask.meta = {**_place(node), "val": drawn}
    for made in (kept, scaled):
        made.meta = {**_place(node), "val": result}
    for user in users:
        user.replace_all_uses_with(scaled)
        graph.erase_node(user)


def _place(node: fx.Node) -> dict:
    """Where a node is in the user's code."""
    return {key: node.meta[key] for key in ("stack_trace", "nn_module_stack", "fwd_nn_module_stack")
            if key in node.meta}
