"""Scales of quantised tensors are checked where their values are at hand: nothing good is computed
with one that is zero, negative or no number."""

import re
from collections.abc import Callable

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

_LIBRARIES = ("quantized_decomposed::", "torchao::", "torch_vulkan::")
_NAMES = ("scale", "scales", "tensor_scale")


def check_scale(name: str, scale: torch.Tensor, format: str = "") -> None:
    """Raises ValueError, naming the tensor, unless every scale is a positive finite number.

    Args:
        format: of the codes that uint8 scales are, by the name of torch's dtype.
    """
    if scale.is_meta or isinstance(scale, FakeTensor):
        return
    if format and scale.dtype == torch.uint8:
        scale = scale.view(getattr(torch, format)).float()
    if not scale.is_floating_point():
        return
    scale = scale.detach().double()  # floats of 8 bits have no comparisons
    wrong = ~(torch.isfinite(scale) & (scale > 0))
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"scale {name!r}: {int(wrong.sum())} of {scale.numel()} are not positive "
                         f"finite numbers; the first is {scale[place].item()} at {list(place)}")


def check_scales(graph: fx.Graph, tensor_of: Callable[[fx.Node], tuple | None]) -> None:
    """Checks the scales of every node that quantises or dequantises.

    Args:
        graph: as it was captured.
        tensor_of: a placeholder or get_attr node → (its name, its tensor); None: not known.

    Raises:
        ValueError: one is zero, negative, infinite or NaN.
    """
    for node in graph.nodes:
        for scale, format in _scales(node):
            if isinstance(scale, (int, float)):
                check_scale(f"of {node.name}", torch.tensor(float(scale), dtype=torch.float64))
            elif isinstance(scale, fx.Node) and scale.op in ("placeholder", "get_attr"):
                found = tensor_of(scale)
                if found is not None and isinstance(found[1], torch.Tensor):
                    check_scale(*found, format)


def scale_names(graph: fx.Graph, name_of: Callable[[fx.Node], str | None]) -> dict[str, str]:
    """name → format or "", of the tensors that nodes of a graph take for scales.

    Args:
        name_of: a placeholder or get_attr node → the name of its tensor; None: it has none.
    """
    found = {}
    for node in graph.nodes:
        for scale, format in _scales(node):
            if isinstance(scale, fx.Node) and scale.op in ("placeholder", "get_attr"):
                name = name_of(scale)
                if name is not None:
                    found[name] = format
    return found


def _scales(node: fx.Node):
    """(scale, its format or "") of each that a node reads."""
    target = node.target
    if isinstance(target, torch._ops.OpOverloadPacket) and "default" in target.overloads():
        target = target.default
    if not isinstance(target, torch._ops.OpOverload) or "quantize" not in target.name() or (
            not target.name().startswith(_LIBRARIES)):
        return
    given = {argument.name: node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
             for i, argument in enumerate(target._schema.arguments)}
    for name in _NAMES:
        if name in given:
            yield given[name], given.get("scale_format", "") if name == "scale" else ""


def check_captured(module: fx.GraphModule, example_inputs) -> None:
    """Of what Dynamo captured. Raises as check_scales does."""
    inputs = dict(zip(module.graph.find_nodes(op="placeholder"), example_inputs, strict=False))

    def tensor_of(node):
        if node.op == "placeholder":
            argument = node.meta.get("grapharg")
            source = getattr(argument, "source", None)
            return _plain(_name(source) or node.name), inputs.get(node)
        return node.target, _attribute(module, node.target)

    check_scales(module.graph, tensor_of)


def _name(source) -> str:
    name = getattr(source, "name", "")
    return name() if callable(name) else name


def _plain(name: str) -> str:
    """"layer.weight_scale" of "L['self']._modules['layer']._buffers['weight_scale']"."""
    path = re.sub(r"\['?([^'\]]+)'?\]", r".\1", name)
    return re.sub(r"^L\.(self|fn|__self__)\.|\b_(modules|buffers|parameters)\.", "", path)


def _attribute(module, target: str):
    value = module
    for part in target.split("."):
        value = getattr(value, part, None)
    return value
