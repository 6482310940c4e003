"""Scales and zero points of quantised tensors are checked where their values are at hand: nothing
good is computed with a scale that is NaN or infinite, nor with one that is zero or negative where
floats are quantised by it, and sums of integers are exact for zero points of the integers' own
type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from . import parameter_names
from .fx_nodes import module_path_of

_LIBRARIES = ("quantized_decomposed::", "torchao::", "torch_vulkan::", "tensorrt::")
_SCALES = ("scale", "scales", "tensor_scale")
_ZERO_POINTS = ("zero_point", "zero_points")
_TYPES = ("dtype", "input_dtype", "output_dtype")


@dataclass(frozen=True)
class ScaleOf:
    """What is wanted of a scale, or of a zero point.

    Attributes:
        format: of the codes that scales in uint8 are, by the name of torch's dtype.
        quantises: floats are divided by it: it must be positive.
        zero_point_of: it is the zero point of such integers.
    """

    format: str = ""
    quantises: bool = False
    zero_point_of: torch.dtype | None = None

    def check(self, name: str, value: torch.Tensor) -> None:
        """Raises ValueError, naming the tensor, where an element is not what is wanted."""
        if value.is_meta or isinstance(value, FakeTensor):
            return
        if self.zero_point_of is not None:
            self._check_zero_point(name, value)
            return
        if self.format and value.dtype == torch.uint8:
            value = value.view(getattr(torch, self.format)).float()
        if not value.is_floating_point():
            return
        value = value.detach().double()  # floats of 8 bits have no comparisons
        good = torch.isfinite(value)
        if self.quantises:
            good &= value > 0
        _refuse(f"scale {name!r}", value, good,
                f"{'positive ' if self.quantises else ''}finite numbers")

    def _check_zero_point(self, name: str, value: torch.Tensor) -> None:
        if value.is_floating_point():
            return
        limits = torch.iinfo(self.zero_point_of)
        good = (value >= limits.min) & (value <= limits.max)
        _refuse(f"zero point {name!r}", value, good,
                f"of {self.zero_point_of}, from {limits.min} to {limits.max}")

    def also(self, other: "ScaleOf | None") -> "ScaleOf":
        """What is wanted where one tensor has two readers."""
        if other is None:
            return self
        return ScaleOf(self.format or other.format, self.quantises or other.quantises,
                       self.zero_point_of or other.zero_point_of)


def _refuse(what: str, value: torch.Tensor, good: torch.Tensor, wanted: str) -> None:
    if good.all():
        return
    place = tuple((~good).nonzero()[0].tolist())
    raise ValueError(f"{what}: {int((~good).sum())} of {value.numel()} are not {wanted}; the first "
                     f"is {value[place].item()} at {list(place)}")


def check_scale(name: str, scale: torch.Tensor, format: str = "") -> None:
    """Of a scale that dequantises. Raises as ScaleOf.check does."""
    ScaleOf(format).check(name, scale)


def check_scales(graph: fx.Graph, tensor_of: Callable[[fx.Node], tuple | None]) -> None:
    """Checks the scales and zero points of every node that quantises or dequantises.

    Args:
        graph: as it was captured.
        tensor_of: a placeholder or get_attr node → (its name, its tensor); None: not known.

    Raises:
        ValueError: one is not what ScaleOf wants.
    """
    for node in graph.nodes:
        for given, wanted in _scales(node):
            if isinstance(given, (int, float)):
                wanted.check(_place(node), torch.tensor(float(given), dtype=torch.float64))
            elif _is_held(given):
                found = tensor_of(given)
                if found is not None and isinstance(found[1], torch.Tensor):
                    wanted.check(*found)


def scale_names(graph: fx.Graph,
                name_of: Callable[[fx.Node], str | None]) -> dict[str, ScaleOf]:
    """The tensors that nodes of a graph take for scales and zero points, and what is wanted.

    Args:
        name_of: a placeholder or get_attr node → the name of its tensor; None: it has none.
    """
    found = {}
    for node in graph.nodes:
        for given, wanted in _scales(node):
            name = name_of(given) if _is_held(given) else None
            if name is not None:
                found[name] = wanted.also(found.get(name))
    return found


def _is_held(value) -> bool:
    return isinstance(value, fx.Node) and value.op in ("placeholder", "get_attr")


def _place(node: fx.Node) -> str:
    path = module_path_of(node)
    return f"of {node.name} in {path}" if path else f"of {node.name}"


def _scales(node: fx.Node) -> Iterator[tuple[object, ScaleOf]]:
    """Each scale and zero point that a node reads, and what is wanted of it. A zero point that the
    graph has as a number is part of what is compiled, and may be any."""
    target = node.target
    if isinstance(target, torch._ops.OpOverloadPacket) and "default" in target.overloads():
        target = target.default
    if not isinstance(target, torch._ops.OpOverload) or "quantize" not in target.name() or (
            not target.name().startswith(_LIBRARIES)):
        return
    given = {argument.name: node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
             for i, argument in enumerate(target._schema.arguments)}
    quantises = "dequantize" not in target.name()
    for name in _SCALES:
        if name in given:
            format = given.get("scale_format", "") if name == "scale" else ""
            yield given[name], ScaleOf(format, quantises)
    if "amax" in given:  # of 0 everything is 0
        yield given["amax"], ScaleOf()
    dtype = next((given[name] for name in _TYPES if name in given), None)
    if isinstance(dtype, torch.dtype) and dtype in (torch.int8, torch.uint8):
        for name in _ZERO_POINTS:
            if isinstance(given.get(name), fx.Node):
                yield given[name], ScaleOf(zero_point_of=dtype)


def check_captured(module: fx.GraphModule, example_inputs) -> None:
    """Of what Dynamo captured. Raises as check_scales does."""
    names = parameter_names.names(module)
    inputs = dict(zip(names, example_inputs, strict=False))

    def tensor_of(node):
        if node.op == "placeholder":
            return names[node] or node.name, inputs.get(node)
        return node.target, _attribute(module, node.target)

    check_scales(module.graph, tensor_of)


def _attribute(module, target: str):
    value = module
    for part in target.split("."):
        value = getattr(value, part, None)
    return value
