"""What a model makes on the CPU for tensors on a GPU - a list as an index, a constant,
`arange(n).to(x.device)` - is made on the GPU: a copy in each call would stand between the model's
operators, and no engine computes on two devices."""

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from .._native import C
from .._torch import compat
from .fx_nodes import attribute, has_effect, main_device, op_name
from .random_ops import is_random_op_memory
from .scalars import is_host_scalar

aten = torch.ops.aten
_COPY = torch.ops.prims.device_put.default


def make_where_read(module: fx.GraphModule) -> None:
    """Moves constants, and what is computed from constants and sizes alone, to the device of the
    graph where nobody but its operators reads them."""
    device = main_device(module.graph)
    if device.type == "cpu":
        return
    moving = _movable(module, device)
    for node in list(module.graph.nodes):
        if node in moving:
            _move(module, node, device)
    for node in list(module.graph.nodes):
        if node.target is _COPY and node.args[0] in moving:
            _copy_in_place(module.graph, node)


def _movable(module: fx.GraphModule, device: torch.device) -> set[fx.Node]:
    moving = {node for node in module.graph.nodes if _is_on_cpu(module, node)}

    def stays(node):
        tensors = (n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor))
        return not all(n in moving for n in tensors) or not all(
            user in moving or _reads_anywhere(user, device) for user in node.users)

    while left_behind := {node for node in moving if stays(node)}:
        moving -= left_behind
    return moving


def _is_on_cpu(module: fx.GraphModule, node: fx.Node) -> bool:
    value = node.meta.get("val")
    if node.op == "get_attr":
        held = attribute(module, node.target)
        return (isinstance(held, torch.Tensor) and isinstance(value, FakeTensor)
                and held.device.type == "cpu" and held.layout == torch.strided)
    return (node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            and isinstance(value, FakeTensor) and value.device.type == "cpu"
            and not has_effect(node) and not is_host_scalar(node) and not is_random_op_memory(node)
            and not compat.depends_on_data(value))


def _reads_anywhere(user: fx.Node, device: torch.device) -> bool:
    """Whether an operator on the device takes the device's tensors where it takes the CPU's."""
    value = user.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return user.op == "call_function" and all(
        isinstance(v, torch.Tensor) and v.device == device for v in values) and (
            user.target is _COPY or C.is_registered(op_name(user.target)))


def _move(module: fx.GraphModule, node: fx.Node, device: torch.device) -> None:
    value = node.meta["val"]
    if node.op == "get_attr":
        name = f"{node.target.replace('.', '_')}_on_{device.type}"
        if not hasattr(module, name):
            with compat.no_fake_mode():
                setattr(module, name, attribute(module, node.target).detach().to(device))
        node.target = name
    elif any(a.name == "device" for a in node.target._schema.arguments):
        node.update_kwarg("device", device)
    with value.fake_mode:
        node.meta["val"] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                               device=device)


def runs_on_host(node: fx.Node) -> bool:
    """Whether it gives the GPU nothing to compute: an operator on the CPU's tensors, or a copy from
    there or to there."""
    values = [n.meta.get("val") for n in (*node.all_input_nodes, node)]
    on_cpu = [v.device.type == "cpu" for v in values if isinstance(v, torch.Tensor)]
    copies = node.target in (_COPY, aten._to_copy.default)
    return bool(on_cpu) and (any(on_cpu) if copies else all(on_cpu))


def _copy_in_place(graph: fx.Graph, node: fx.Node) -> None:
    with graph.inserting_before(node):
        copy = graph.call_function(aten.clone.default, (node.args[0],))
    copy.meta = node.meta
    node.replace_all_uses_with(copy)
    graph.erase_node(node)
