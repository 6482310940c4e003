"""Small floating-point numbers whose decoding a graph spells out bit by bit, as torchao's MX and
NVFP4 tensors do: one operator takes the place of such a chain.

A chain of pointwise operators that reads nothing but one tensor of bytes is a table of 256 numbers.
It is computed here, for every byte, by PyTorch's own operators; where it is the table of a format
the chain is replaced. So no spelling is known by heart, and nothing else can be taken for one.
"""

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .fx_nodes import attribute, op_name

aten = torch.ops.aten
_LIKE = {"aten::full_like", "aten::zeros_like", "aten::ones_like"}
_OTHERS = {"aten::_to_copy", "aten::view.dtype", "aten::index_put", "aten::alias", "aten::detach",
           "aten::clone", "aten::lift_fresh_copy", "aten::__rshift__.Scalar",
           "aten::__lshift__.Scalar", "aten::bitwise_left_shift.Tensor_Scalar",
           "aten::bitwise_right_shift.Tensor_Scalar"} | _LIKE
_MADE = {"aten::full", "aten::scalar_tensor"}
_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def recognise_decoders(module: fx.GraphModule) -> None:
    """Replaces chains that decode numbers of 8 and 4 bits by torch_vulkan::decode_floats."""
    tensors = [n.meta.get("val") for n in module.graph.nodes]
    if not any(isinstance(t, torch.Tensor) and t.dtype == torch.uint8 for t in tensors):
        return
    found = _Tables(module)
    for node in list(module.graph.nodes):
        with unset_fake_temporarily(), torch.no_grad():  # tables are of numbers
            replaced = found.decoder(node)
        if replaced is None:
            continue
        codes, format = replaced
        value = node.meta["val"]
        with module.graph.inserting_before(node):
            made = module.graph.call_function(torch.ops.torch_vulkan.decode_floats.default,
                                              (codes, format, value.dtype))
        made.meta = {**node.meta}
        made.meta.pop("tensor_meta", None)
        node.replace_all_uses_with(made)
        found.forget(node)
    found.erase()


class _Tables:
    """What chains of pointwise operators make of each byte of the one tensor that they read."""

    def __init__(self, module: fx.GraphModule):
        self._module = module
        self._of: dict[fx.Node, tuple[fx.Node, torch.Tensor] | None] = {}
        self._replaced: list[fx.Node] = []

    def decoder(self, node: fx.Node) -> tuple[fx.Node, str] | None:
        """(the codes, their format) of what decodes them; None: it does not."""
        value = node.meta.get("val")
        found = self._table(node)
        if found is None or not value.dtype.is_floating_point or value.dtype.itemsize < 2:
            return None
        bytes, table = found
        packed = self._packed(bytes)
        if packed is not None:
            return (packed, "float4_e2m1fn") if _same(table[:16], _E2M1) else None
        codes = torch.arange(256, dtype=torch.uint8)
        for format in ("float8_e8m0fnu", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                       "float8_e5m2fnuz"):
            if _same(table, codes.view(getattr(torch, format)).float()):
                return bytes, format
        return None

    def forget(self, node: fx.Node) -> None:
        """What reads a replaced node has no table of the chain any more."""
        self._of[node] = None
        self._replaced.append(node)

    def erase(self) -> None:
        """Erases what nobody reads since the replacements."""
        waiting = [*self._replaced]
        while waiting:
            node = waiting.pop()
            if node.users or node.op not in ("call_function", "get_attr") or node._erased:
                continue
            waiting.extend(node.all_input_nodes)
            self._module.graph.erase_node(node)

    def _packed(self, halves: fx.Node) -> fx.Node | None:
        """The bytes of which `halves` has the low and the high half of each, as neighbours."""
        if op_name(halves.target) not in ("aten::view", "aten::reshape", "aten::_unsafe_view"):
            return None
        pair = halves.args[0]
        if op_name(pair.target) != "aten::stack" or len(pair.args[0]) != 2:
            return None
        dim = pair.args[1] if len(pair.args) > 1 else 0
        if dim not in (-1, pair.meta["val"].dim() - 1):
            return None
        low, high = map(self._table, pair.args[0])
        if low is None or high is None or low[0] is not high[0]:
            return None
        bytes = torch.arange(256, dtype=torch.uint8)
        *outer, last = _sizes(low[0])
        fits = last.isdigit() and _sizes(halves) == [*outer, str(2 * int(last))]
        same = torch.equal(low[1], bytes & 15) and torch.equal(high[1], bytes >> 4)
        return low[0] if fits and same else None

    def _table(self, node: fx.Node) -> tuple[fx.Node, torch.Tensor] | None:
        if node not in self._of:
            self._of[node] = self._computed(node)
        return self._of[node]

    def _computed(self, node: fx.Node):
        """(the bytes, the result for each); for bytes that no such chain makes: themselves."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        chain = self._chain(node)
        if chain is None and value.dtype == torch.uint8:
            return node, torch.arange(256, dtype=torch.uint8)
        return chain

    def _chain(self, node: fx.Node):
        if node.op != "call_function" or not _is_pointwise(node.target):
            return None
        tables = {n: self._table(n) for n in node.all_input_nodes if not self._is_number(n)}
        sources = {table[0] for table in tables.values() if table is not None}
        if None in tables.values() or len(sources) != 1:
            return None
        (source,) = sources
        if _sizes(node) != _sizes(source):
            return None
        try:
            result = self._run(node, tables)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return None
        return (source, result) if result.shape == (256,) else None

    def _is_number(self, node: fx.Node) -> bool:
        """Whether it has one value for all elements."""
        if node.op == "get_attr":
            return attribute(self._module, node.target).numel() == 1
        if node.op != "call_function":
            return False
        if op_name(node.target) in _MADE:
            return not node.all_input_nodes
        return op_name(node.target) in _OTHERS - _LIKE and bool(node.all_input_nodes) and all(
            map(self._is_number, node.all_input_nodes))

    def _run(self, node: fx.Node, tables) -> torch.Tensor:
        def value_of(n: fx.Node):
            return tables[n][1] if n in tables else self._number(n)

        args, kwargs = fx.node.map_arg((node.args, node.kwargs), value_of)
        return node.target(*args, **_on_host(kwargs))

    def _number(self, node: fx.Node) -> torch.Tensor:
        if node.op == "get_attr":
            return attribute(self._module, node.target).detach().cpu().reshape(())
        if op_name(node.target) in _MADE:
            number = node.args[-1]  # full(size, number), scalar_tensor(number)
            return torch.full((), number, dtype=node.meta["val"].dtype)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._number)
        return node.target(*args, **_on_host(kwargs))


def _sizes(node: fx.Node) -> list[str]:
    """As texts: a comparison of symbols would be a guard."""
    return [str(size) for size in node.meta["val"].shape]


def _on_host(kwargs: dict) -> dict:
    return {name: torch.device("cpu") if name == "device" and value is not None else value
            for name, value in kwargs.items()}


def _is_pointwise(target) -> bool:
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    pointwise = torch.Tag.pointwise in target.tags
    return (pointwise or op_name(target) in _OTHERS) and (
        torch.Tag.nondeterministic_seeded not in target.tags)


def _same(table: torch.Tensor, wanted: torch.Tensor) -> bool:
    """The same bits, or both NaN, as numbers of the table's dtype."""
    wanted = wanted.to(table.dtype)
    both = table.isnan() & wanted.isnan()
    same = (table == wanted) & (table.signbit() == wanted.signbit())
    return bool((both | same).all())
