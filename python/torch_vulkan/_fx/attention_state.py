"""The random state that CUDA's fused attention hands to its gradient, in types that engines do not
hold. Without dropout nothing reads it: graphs hold zeros in its place."""

import torch
from torch import fx

from .fx_nodes import is_getitem

aten = torch.ops.aten

_FORMS = ("flash", "efficient", "cudnn")
_FORWARD = {getattr(aten, f"_scaled_dot_product_{form}_attention").default for form in _FORMS}
GRADIENTS = {f"aten::_scaled_dot_product_{form}_attention_backward" for form in _FORMS}
_BACKWARD = {getattr(aten, f"_scaled_dot_product_{form}_attention_backward").default
             for form in _FORMS}

# Arguments of the gradients that no converter reads: the state, and where sequences of several
# lengths begin, which these forms have none of.
ARGUMENTS = {"cum_seq_q", "cum_seq_k", "max_q", "max_k", "philox_seed", "philox_offset"}
# What kernels without dropout are given as the state is an address and no more: any type will do.
_STATE = ("philox_seed", "philox_offset")


def forget_random_state(graph: fx.Graph) -> None:
    """Puts zeros in the place of each random state of attention without dropout."""
    for node in list(graph.nodes):
        if node.op != "call_function" or _given(node, "dropout_p", 0.0) != 0:
            continue
        if node.target in _FORWARD:
            for user in list(node.users):
                value = user.meta.get("val")
                if is_getitem(user) and user.args[1] >= 2 and isinstance(value, torch.Tensor):
                    user.replace_all_uses_with(_zeros(graph, user, value, value.dtype))
                    graph.erase_node(user)
        elif node.target in _BACKWARD:
            names = [a.name for a in node.target._schema.arguments]
            for position in map(names.index, _STATE):
                if isinstance(node.args[position], fx.Node):
                    state = node.args[position].meta["val"]
                    node.update_arg(position, _zeros(graph, node, state, torch.int64))


def _given(node: fx.Node, name: str, default):
    """An argument of a call by its name; None if it has none of that name."""
    schema = getattr(node.target, "_schema", None)
    for position, argument in enumerate(schema.arguments if schema else ()):
        if argument.name == name:
            given = node.args[position] if position < len(node.args) else default
            return node.kwargs.get(name, given)
    return None


def _zeros(graph: fx.Graph, before: fx.Node, like: torch.Tensor, dtype: torch.dtype) -> fx.Node:
    with graph.inserting_before(before):
        zeros = graph.call_function(aten.zeros.default, (list(like.shape),),
                                    {"dtype": dtype, "device": like.device})
    with like.fake_mode:
        zeros.meta["val"] = torch.empty(like.shape, dtype=dtype, device=like.device)
    return zeros
