"""FX graphs of ATen operators as the compiler's Graph."""

from dataclasses import dataclass, field

import torch
from torch import fx

from .._base.dtypes import KINDS, PARTS, to_kind
from .._engines import custom
from .._native import C
from .._torch import compat
from .._torch.strides import promised
from . import attention_state, demands, four_bits, parameter_names, small_floats, two_four
from .complex_values import is_complex
from .fx_nodes import (
    attribute,
    flat,
    has_effect,
    is_getitem,
    is_size_arithmetic,
    main_device,
    module_path_of,
    op_name,
    source_of,
)
from .placement import runs_on_host
from .random_ops import is_random_op_memory
from .refusals import read_by_place, refusal
from .returned_views import is_kept, is_view
from .scalars import is_host_scalar
from .schema import argument_kinds, is_plain, with_scalar
from .symbols import Inexpressible, SymbolTable


def _wrapped(number: int, info: torch.iinfo) -> int:
    """A number beside integers wraps as they do."""
    return (number - info.min) % 2**info.bits + info.min


def _does_nothing(node: fx.Node) -> bool:
    """True for views that PyTorch keeps, and for what only raises an error where its argument says
    so; the rest its operator's registration tells."""
    if op_name(node.target) == "torch::with_effects":
        return op_name(node.args[1]) in _CHECKS
    return is_kept(node) and is_view(node)


_CHECKS = {"aten::_linalg_check_errors"}


@dataclass
class Imported:
    """A Graph and what its parts stand for.

    Attributes:
        graph: the compiler's Graph.
        nodes: by the index of a node's origin, the FX node that it is (part of).
        symbols: the SymbolTable of the graph.
    """

    graph: object
    symbols: SymbolTable
    nodes: list[fx.Node] = field(default_factory=list)


# What a node's meta calls its value in the Graph; nodes that stand for the same, as a sub-module's
# arguments, have it from there.
ID = "torch_vulkan_id"


def name_of(node: fx.Node) -> str:
    """What messages and files call an input, a weight or an output."""
    return node.meta.get("torch_vulkan_name") or node.name


def promised_strides(tensor, symbols: SymbolTable) -> list | None:
    """The strides that PyTorch promises for a tensor; None: row-major, or not to be said."""
    if not isinstance(tensor, torch.Tensor) or compat.depends_on_data(tensor):
        return None
    strides = promised(tensor)
    try:
        return None if strides is None else symbols.shape(strides)
    except Inexpressible:
        return None


class Importer:
    """Imports a captured graph.

    Args:
        module: owner of the graph, with its get_attr constants.
        weights: placeholders that become weights.
        by_parameters: weights go by the module's names for them, where these are known, as
            calibration wants it.
    """

    def __init__(self, module: fx.GraphModule, weights: set[str], by_parameters: bool = False):
        self._module = module
        self._weight_names = weights
        self._by_parameters = by_parameters
        self._graph = C.Graph.named()
        self._symbols = SymbolTable(self._graph)
        self._values: dict[fx.Node, object] = {}  # id, list of ids, or None
        self._result = Imported(self._graph, self._symbols)
        self._device = main_device(module.graph)
        self._by_place = read_by_place(module.graph)
        self._broken: dict[fx.Node, str] = {}
        self._count = 0  # nodes of the graph, its own included

    def run(self) -> Imported:
        """Raises Inexpressible if an input's shape cannot be expressed."""
        # First of all: the guards that it makes say which sizes have one name.
        self._broken = {node: demands.broken(node) for node in self._module.graph.nodes}
        for node in self._module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._add_leaf(node)
            elif node.op == "output":
                self._set_outputs(node)
            elif is_getitem(node):
                self._values[node] = self._pick(node)
            elif is_size_arithmetic(node) or is_host_scalar(node):
                continue  # PyTorch's; tensors that an engine reads become inputs when they are read
            elif is_random_op_memory(node):
                continue
            elif node.op in ("call_function", "call_module"):
                self._add_node(node)
        self._symbols.add_conditions()
        # Numbers among the arguments can be handed to an engine.
        self._symbols.carry(self._graph)
        for node in self._module.graph.nodes:
            node.meta.pop(ID, None)
            if isinstance(self._values.get(node), int):
                node.meta[ID] = self._values[node]
        return self._result

    def _tensor(self, node: fx.Node):
        value = node.meta.get("val")
        if value is None and node.op == "get_attr":
            value = attribute(self._module, node.target)
        return value

    def _type(self, value):
        """(dtype, shape) of a tensor; dtype `other` where an engine could not hold it. Complex
        numbers are held as pairs, those of float8 as codes."""
        pair = [2] if value.dtype in PARTS else []
        codes = torch.uint8 if value.dtype in small_floats.FORMATS else value.dtype
        dtype = to_kind(PARTS.get(value.dtype, codes))
        if value.layout != torch.strided or value.is_quantized or not is_plain(value):
            dtype = C.DType.other
        return dtype, [*self._symbols.shape(value.shape), *pair]

    def _add_leaf(self, node: fx.Node):
        value = self._tensor(node)
        if not isinstance(value, torch.Tensor):
            return
        try:
            dtype, shape = self._type(value)
        except Inexpressible:
            dtype, shape = C.DType.other, []
        static = all(isinstance(dim, int) for dim in shape)
        if node.op == "get_attr" or (node.name in self._weight_names and static):
            name = self._by_parameters and node.meta.get(parameter_names.NAME) or name_of(node)
            self._values[node] = self._graph.add_weight(name, dtype, shape)
            if node.meta.get(two_four.DIMENSIONS):
                self._graph.set_two_four(self._values[node], node.meta[two_four.DIMENSIONS])
            if node.meta.get(four_bits.FOUR_BITS):
                self._graph.set_four_bits(self._values[node])
        else:
            self._values[node] = self._graph.add_input(name_of(node), dtype, shape)

    def _pick(self, node: fx.Node):
        ids = self._values.get(node.args[0])
        return ids[node.args[1]] if isinstance(ids, list) else None

    def _set_outputs(self, node: fx.Node):
        outputs, seen = [], set()
        for value in flat(node.args[0]):
            if not isinstance(value, fx.Node) or value in seen:
                continue
            seen.add(value)
            ids = self._values.get(value)
            if not isinstance(ids, int) or is_host_scalar(value):
                continue
            outputs.append((ids, name_of(value),
                            promised_strides(self._tensor(value), self._symbols)))
        self._graph.set_outputs(outputs)

    def _added(self, op, node, args, outputs) -> list:
        """Adds a node of the importer's own, for `node`; returns the ids of its outputs."""
        name = f"{node.name}_scalar_{self._count}"
        self._count += 1
        return self._graph.add_node(op, name, args, outputs, origin={"free": True})

    def _add_node(self, node: fx.Node):
        value = node.meta.get("val")
        many = isinstance(value, (tuple, list))
        called, effect = op_name(node.target), has_effect(node)
        op, args = called, []
        reason = self._broken[node] or refusal(node, self._by_place, self._device)
        codes = small_floats.is_concerned(node)
        if codes and not reason:
            reason = small_floats.refusal(node)
        if not reason:
            try:
                op, args = self._arguments(node)
                if codes:
                    op, args = small_floats.arguments(node, op, args)
            except Inexpressible as inexpressible:
                reason = str(inexpressible)
        outputs = []
        for i, item in enumerate(value if many else (value,)):
            if not isinstance(item, torch.Tensor) or many and self._is_unheld(node, i, item):
                outputs.append(None)
                continue
            try:
                outputs.append(self._type(item))
            except Inexpressible as inexpressible:
                outputs.append((C.DType.other, []))
                reason = reason or str(inexpressible)
        if reason:
            # Dataflow only: the partitioner has to see what waits for what.
            op, args = called, [
                ("inputs", "tensors", [self._ids(n) for n in self._tensor_nodes(node)])]
        origin = {"index": len(self._result.nodes), "op": called, "refusal": reason,
                  "effect": effect, "free": _does_nothing(node),
                  "demands": [] if reason else demands.conditions(self._graph, op, args),
                  "on_host": self._device.type != "cpu" and runs_on_host(node)}
        self._result.nodes.append(node)
        self._count += 1
        ids = self._graph.add_node(op, node.name, args, outputs, source_of(node),
                                   module_path_of(node), origin)
        self._values[node] = ids if many else (ids[0] if ids else None)

    @staticmethod
    def _is_unheld(node, i: int, value) -> bool:
        """Whether it is a result that nobody reads, of a type that engines do not hold."""
        held = value.dtype in KINDS or value.dtype in PARTS or value.dtype in small_floats.FORMATS
        return (not held
                and not any(is_getitem(user) and user.args[1] == i for user in node.users))

    def _tensor_nodes(self, node: fx.Node):
        """The tensors that a node reads, those that its sizes come from included."""
        found, waiting = {}, list(node.all_input_nodes)
        for n in waiting:
            if isinstance(self._values.get(n), (int, list)):
                found[n] = None
            elif is_size_arithmetic(n) or is_host_scalar(n):
                waiting.extend(n.all_input_nodes)
        return list(found)

    def _ids(self, node: fx.Node) -> int:
        ids = self._values[node]
        return ids if isinstance(ids, int) else next(i for i in ids if i is not None)

    def _arguments(self, node: fx.Node):
        target = node.target
        values = self._filled(node)
        numbers = [name for name, kind, value in values
                   if kind == "tensor" and isinstance(self._plain(value), (int, float, bool))]
        if len(numbers) == 1 and (scalar := with_scalar(target, numbers[0])) is not None:
            target = scalar
            values = [(name, kind, value) for (name, kind, _), (_, _, value) in
                      zip(argument_kinds(scalar), values, strict=True)]
        args = [self._argument(node, *item) for item in values]
        if (grid := custom.grid_of(node)) is not None:
            args.append((custom.GRID, "attr", self._attribute(grid)))
        complexes = self._complexes(node, values)
        if not complexes:
            return op_name(target), args
        # csrc knows no complex numbers: converters/complex/complex.h.
        return (op_name(target).replace("aten::", "complex::", 1),
                [*args, ("complex", "attr", " ".join(complexes))])

    @staticmethod
    def _complexes(node, values) -> list[str]:
        """Names of the complex tensor arguments of a node, `name.i` of those in a list that holds
        others, too, and "result" where it gives such."""
        names = []
        for name, kind, value in values:
            items = [] if kind == "attr" else flat(value)
            are = [isinstance(v, complex) or isinstance(v, fx.Node) and is_complex(v)
                   for v in items]
            names += ([name] if are and all(are) else
                      [f"{name}.{i}" for i, yes in enumerate(are) if yes])
        return [*names, "result"] if is_complex(node) else names

    def _filled(self, node: fx.Node):
        """(name, kind, value) of each argument, defaults filled in."""
        values = []
        for i, (name, kind, default) in enumerate(argument_kinds(node.target)):
            value = node.args[i] if i < len(node.args) else node.kwargs.get(name, default)
            values.append((name, kind, value))
        if op_name(node.target) in attention_state.GRADIENTS:
            values = [v for v in values if v[0] not in attention_state.ARGUMENTS]
        return values

    @staticmethod
    def _plain(value):
        """The number that an FX argument is, a SymInt counting as one; else None."""
        if isinstance(value, fx.Node):
            value = value.meta.get("val")
            return 0 if isinstance(value, (torch.SymInt, int)) else None
        return value

    def _argument(self, node, name, kind, value):
        if kind == "tensor":
            return name, "tensor", self._tensor_id(node, value)
        if kind == "tensors":
            return name, "tensors", [self._tensor_id(node, item) for item in value or ()]
        return name, "attr", self._attribute(value)

    def _tensor_id(self, node, value):
        if value is None:
            return None
        if isinstance(value, fx.Node) and is_host_scalar(value) and value not in self._values:
            self._add_leaf(value)
        if isinstance(value, fx.Node) and isinstance(self._values.get(value), int):
            return self._values[value]
        if isinstance(self._plain(value), (int, float)):
            return self._scalar_tensor(node, value)
        if isinstance(value, complex):
            return self._complex_scalar(node, value)
        raise Inexpressible("one of its arguments is not a tensor that the compiler knows")

    def _scalar_tensor(self, node, value):
        """A number where the operator wants a tensor: a scalar of the type it promotes to."""
        result = node.meta["val"]
        result = result[0] if isinstance(result, (tuple, list)) else result
        dtype = to_kind(result.dtype)
        if result.dtype == torch.bool:
            dtype = C.DType.float32 if isinstance(value, float) else C.DType.int32
        elif isinstance(value, int) and not (
                result.dtype.is_floating_point or result.dtype.is_complex):
            value = _wrapped(value, torch.iinfo(result.dtype))
        args = [("size", "attr", []), ("fill_value", "attr", self._attribute(value)),
                ("dtype", "attr", dtype), ("layout", "attr", None), ("device", "attr", None),
                ("pin_memory", "attr", None)]
        return self._added("aten::full", node, args, [(dtype, [])])[0]

    def _complex_scalar(self, node, value: complex):
        dtype = to_kind(PARTS[node.meta["val"].dtype])
        args = [("real", "attr", value.real), ("imag", "attr", value.imag),
                ("complex", "attr", "result")]
        return self._added("complex::scalar", node, args, [(dtype, [2])])[0]

    def _attribute(self, value):
        if isinstance(value, fx.Node):
            value = value.meta.get("val")
        if value is None or isinstance(value, (bool, float, str)):
            return value
        if isinstance(value, (int, torch.SymInt)):
            return self._symbols.dim(value)
        if isinstance(value, complex):
            return [value.real, value.imag]
        if isinstance(value, torch.dtype):
            return to_kind(value)
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value).removeprefix("torch.")
        if isinstance(value, (list, tuple)):
            return [self._attribute(item) for item in value]
        raise Inexpressible(f"an argument of type {type(value).__name__}")
