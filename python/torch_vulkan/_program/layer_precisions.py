"""What tv.Builder is told of tensors and layers - ranges, precisions - as settings: a calibration,
and layers that stay in float32."""

import math
import re
import warnings
from dataclasses import dataclass, field

import torch
from torch import fx

from .._base.setting_checks import LOW_PRECISIONS
from .._base.settings import Settings
from .._fx.fx_nodes import is_getitem, module_path_of, op_name
from .._fx.importer import ID, Importer
from .._fx.mutation import detach_writes
from .._fx.prepare import prepare
from .._fx.returned_views import is_view
from .._native import C

PRECISIONS = (torch.float32, *LOW_PRECISIONS, torch.int8)


@dataclass
class Choices:
    """Attributes:
        layers: path of a layer's module → the numbers of the values that it makes.
        inputs: name of an input → the number of its value.
        amax: number of a value → the largest magnitude that int8 represents of it.
        precisions: path of a layer → its dtype.
    """

    layers: dict[str, list[int]] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    amax: dict[int, float] = field(default_factory=dict)
    precisions: dict[str, torch.dtype] = field(default_factory=dict)

    def any(self) -> bool:
        return bool(self.amax or self.precisions)


def largest(low, high) -> float:
    """The magnitude that a symmetric range of these bounds holds. Raises ValueError."""
    numbers = all(isinstance(bound, (int, float)) and not isinstance(bound, bool)
                  and math.isfinite(bound) for bound in (low, high))
    if not numbers or low > high or low == high == 0:
        raise ValueError(f"[builder] set_dynamic_range: got {low!r} to {high!r}, want two finite "
                         "numbers, the lower one first, not both of them 0")
    return float(max(abs(low), abs(high)))


def settings_of(choices: Choices, module: fx.GraphModule, weights: set[str],
                settings: Settings) -> Settings:
    """The settings with what the choices say of the network, which is `module`, an exported graph
    in the backend's operators, to be changed.

    Raises:
        ValueError: a layer cannot have its precision, with the reason.
    """
    _check_permitted(choices, settings)
    detach_writes(module)
    prepare(module, len(module.graph.output_node().args[0]))
    _check_low(choices, module)
    changes = {}
    if settings.permits_int8:
        changes["calibration"] = _calibration(choices, module, weights, settings)
    if settings.permits_int8 or settings.low_precision is not None:
        kept = [f"^{re.escape(path)}$" for path, dtype in choices.precisions.items()
                if dtype == torch.float32]
        changes["autocast_excluded_nodes"] = (*settings.autocast_excluded_nodes, *kept)
    return settings.replaced(**changes)


def _check_permitted(choices: Choices, settings: Settings) -> None:
    if choices.amax and not settings.permits_int8:
        raise ValueError("[builder] set_dynamic_range: nothing is computed in int8 unless "
                         "enabled_precisions has torch.int8, as {torch.float32, torch.int8} does")
    for path, dtype in choices.precisions.items():
        permitted = {torch.int8: settings.permits_int8, torch.float32: True}.get(
            dtype, settings.low_precision == dtype)
        if not permitted:
            raise ValueError(f"[builder] set_precision: {path!r} in {dtype} needs it in "
                             "enabled_precisions")


def _check_low(choices: Choices, module: fx.GraphModule) -> None:
    """Raises for a layer that is to be in 16 bits and has an operator that stays in float32."""
    stay = {info["op"] for info in C.supported_ops() if info["keeps_float32"]}
    for node in module.graph.nodes:
        dtype = choices.precisions.get(module_path_of(node))
        if node.op != "call_function" or dtype not in LOW_PRECISIONS:
            continue
        if op_name(node.target) in stay:
            raise ValueError(
                f"[builder] set_precision: {module_path_of(node)!r} in {dtype}: "
                f"{op_name(node.target)} is computed in float32, as torch.autocast has it: its "
                "results leave the range of 16-bit floats or need more of the mantissa")


def _calibration(choices: Choices, module: fx.GraphModule, weights: set[str],
                 settings: Settings) -> str:
    """The text of a calibration: that of the settings, and what the choices say besides."""
    header, scales, alpha, most, means, required = (
        C.read_calibration(settings.calibration, "the setting calibration")
        if settings.calibration else (C.header_of("minmax"), [], None, {}, {}, set()))
    scales, used = dict(scales), set()
    imported = Importer(module, weights, by_parameters=True).run()
    named = {node.meta[ID]: node for node in module.graph.nodes if ID in node.meta}
    points = {}  # layer → name
    for name, value, origin, *_ in C.observed_points(imported.graph, settings.compiler_json()):
        reader = imported.nodes[origin]
        points[module_path_of(reader)] = name
        number = _ranged(choices, named[value], module_path_of(reader))
        used.add(number)
        if choices.precisions.get(module_path_of(reader), torch.int8) != torch.int8:
            scales.pop(name, None)
        elif number is not None:
            # As caches hold it.
            scales[name] = torch.tensor(choices.amax[number] / C.INT8_STEPS).item()
    for path, dtype in choices.precisions.items():
        if dtype == torch.int8:
            required = {*required, _required(path, points, scales)}
    _warn_of_unused(choices, used)
    return C.calibration_text(header, [*scales.items()], alpha, most, means, required)


def _required(path: str, points: dict[str, str], scales: dict[str, float]) -> str:
    """The tensor whose reader is to be in int8. Raises where it cannot be."""
    if path not in points:
        raise ValueError(
            f"[builder] set_precision: {path!r} cannot be computed in int8: want a product of "
            "matrices or a convolution, with constant weights that are not quantised themselves, "
            "of at most 33,025 terms, that no setting excludes")
    if not scales.get(points[path]):
        raise ValueError(
            f"[builder] set_precision: {path!r} in int8 needs the range of its input: "
            f"b.set_dynamic_range, or a calibration that has {points[path]!r}")
    return points[path]


def _ranged(choices: Choices, node: fx.Node, reader: str) -> int | None:
    """The number of the value with a range that a layer reads as `node`: it, or what it is a view
    of."""
    while True:
        number = None if module_path_of(node) == reader else _number(choices, node)
        if number in choices.amax:
            return number
        within = module_path_of(node) == reader and node.op == "call_function"
        if not (within or is_view(node)) or is_getitem(node) or not node.all_input_nodes:
            return None
        node = node.all_input_nodes[0]


def _number(choices: Choices, node: fx.Node) -> int | None:
    """Of the value of the Builder that a node makes; None: it is a part of a layer."""
    if node.op == "placeholder":
        return choices.inputs.get(node.meta.get("torch_vulkan_name") or node.name)
    source = node.args[0] if is_getitem(node) else node
    path = module_path_of(source)
    made = choices.layers.get(path, [])
    if is_getitem(node):
        return made[node.args[1]] if node.args[1] < len(made) else None
    leaves = any(module_path_of(user) != path or user.op == "output" for user in node.users)
    return made[0] if len(made) == 1 and leaves else None


def _warn_of_unused(choices: Choices, used: set[int]) -> None:
    makers = {number: path for path, numbers in choices.layers.items() for number in numbers}
    makers |= {number: name for name, number in choices.inputs.items()}
    unused = [f"{makers[number]!r}" for number in sorted({*choices.amax} - used)]
    if unused:
        warnings.warn(
            f"torch_vulkan: [builder] set_dynamic_range: the range of {', '.join(unused)} changes "
            "nothing: no product or convolution with constant weights that may be in int8 reads it",
            stacklevel=5)
