"""Scales and zero points that are chosen while a program runs, as PT2E's dynamic quantisation has
them: in float32, which they are computed in, where torch.ao hands them on as float64."""

import torch
from torch import fx

from .fx_nodes import is_getitem, op_name

aten = torch.ops.aten
_LIBRARY = "quantized_decomposed::"
# These take a number out of a scale, whatever type it is held in.
_OF_TENSORS = {f"{_LIBRARY}{name}_per_tensor.{overload}" for name in ("quantize", "dequantize")
               for overload in ("tensor", "tensor2")}
_OF_TOKENS = {f"{_LIBRARY}quantize_per_token", f"{_LIBRARY}dequantize_per_token"}


def narrow_dynamic_scales(graph: fx.Graph) -> None:
    """Quantising operators read scales as float32, computed by PyTorch's own operators from the
    tensor, in place of the float64 that torch.ao makes of them; the numbers are the same. (Scales
    of tokens, where zero points are chosen too, are float64 in eager mode as well: what lies next
    to a half may be rounded to the other side.) Whatever else reads the float64 keeps it."""
    for node in list(graph.nodes):
        found = _CHOOSE.get(op_name(node.target)) if node.op == "call_function" else None
        if found is None:
            continue
        chain, read_by = found
        readers = [(part.args[1], part, user) for part in node.users if is_getitem(part)
                   for user in part.users if op_name(user.target) in read_by]
        if not readers or node.args[0].meta["val"].dtype != torch.float32:
            continue  # of 16 bits they are computed in 16 bits
        with graph.inserting_before(node):
            parts = chain(_Chain(graph, node))
        for index, part, user in readers:
            # The scale and the zero point are arguments of their own.
            user.args = tuple(parts[index] if i == index + 1 and arg is part else arg
                              for i, arg in enumerate(user.args))
        for part in [*node.users]:
            if not part.users:
                graph.erase_node(part)
        if not node.users:
            graph.erase_node(node)


class _Chain:
    """Nodes in place of one that chooses scale and zero point, as torch.ao's `determine_qparams`
    computes them (torch/ao/quantization/utils.py)."""

    def __init__(self, graph: fx.Graph, node: fx.Node):
        self._graph, self._node = graph, node
        self._input = node.args[0]

    def of_tensor(self, symmetric: bool) -> tuple[fx.Node, fx.Node]:
        """(scale, zero point), each of one element, float32 and int32."""
        _, self._low, self._high, self._eps, self._dtype = self._node.args
        low = self._call(aten.clamp.default, self._call(aten.amin.default, self._input), None, 0)
        high = self._call(aten.clamp.default, self._call(aten.amax.default, self._input), 0)
        steps = float(self._high - self._low)
        if symmetric:
            high = self._call(aten.maximum.default, self._call(aten.neg.default, low), high)
            scale = self._scale(high, steps / 2)
            zero = 128 if self._dtype == torch.uint8 else 0
            device = self._node.meta["val"][0].device
            return scale, self._call(aten.full.default, [1], zero, dtype=torch.int32,
                                     device=device)
        scale = self._scale(self._call(aten.sub.Tensor, high, low), steps)
        low = self._call(aten._to_copy.default, low, dtype=torch.float32)
        zero = self._call(aten.round.default, self._call(aten.div.Tensor, low, scale))
        zero = self._call(aten._to_copy.default, zero, dtype=torch.int32)
        zero = self._call(aten.add.Tensor, self._call(aten.neg.default, zero), self._low)
        return scale, self._call(aten.clamp.default, zero, self._low, self._high)

    def of_tokens(self) -> tuple[fx.Node, fx.Node]:
        """(scale, zero point) of each row of the last dimension, which stays, of size 1: float32,
        and int32 zeros."""
        most = self._call(aten.amax.default, self._call(aten.abs.default, self._input), [-1], True)
        scale = self._call(aten.div.Tensor, self._call(aten.clamp.default, most, 1e-5), 127)
        return scale, self._call(aten.zeros_like.default, scale, dtype=torch.int32)

    def of_tokens_asymmetric(self) -> tuple[fx.Node, fx.Node]:
        """The same, with zero points from -128 to 127."""
        low, high = (self._call(aten.clamp.default,
                                self._call(reduced, self._input, [-1], True), *bounds)
                     for reduced, bounds in ((aten.amin.default, (None, 0)),
                                             (aten.amax.default, (0,))))
        scale = self._call(aten.div.Tensor, self._call(aten.sub.Tensor, high, low), 255.0)
        scale = self._call(aten.clamp.default, scale, torch.finfo(torch.float32).eps)
        low, high = (self._call(aten.div.Tensor, end, scale) for end in (low, high))
        errors = [self._call(aten.add.Tensor, end, number)
                  for end, number in ((low, -128), (high, 127))]
        positive = self._call(aten.gt.Scalar, self._call(aten.add.Tensor, *errors), 0)
        ends = [self._call(aten.add.Tensor, self._call(aten.neg.default, end), number)
                for end, number in ((low, -128), (high, 127))]
        zero = self._call(aten.where.self, positive, *ends)
        zero = self._call(aten.round.default, self._call(aten.clamp.default, zero, -128, 127))
        return scale, self._call(aten._to_copy.default, zero, dtype=torch.int32)

    def _scale(self, span: fx.Node, steps: float) -> fx.Node:
        """span / steps, at least eps."""
        scale = self._call(aten.div.Tensor, span, steps)
        scale = self._call(aten._to_copy.default, scale, dtype=torch.float32)
        least = torch.tensor(self._eps, dtype=torch.float32).item()
        return self._call(aten.view.default, self._call(aten.clamp.default, scale, least), [1])

    def _call(self, target, *args, **kwargs) -> fx.Node:
        made = self._graph.call_function(target, args, kwargs)
        given, named = fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self._node.meta["val"][0].fake_mode:
            value = target(*given, **named)
        made.meta = {**self._node.meta, "val": value}
        made.meta.pop("tensor_meta", None)
        return made


_CHOOSE = {
    f"{_LIBRARY}choose_qparams.tensor": (lambda chain: chain.of_tensor(False), _OF_TENSORS),
    f"{_LIBRARY}choose_qparams_symmetric.tensor": (lambda chain: chain.of_tensor(True),
                                                   _OF_TENSORS),
    f"{_LIBRARY}choose_qparams_per_token": (_Chain.of_tokens, _OF_TOKENS),
    f"{_LIBRARY}choose_qparams_per_token_asymmetric": (_Chain.of_tokens_asymmetric, _OF_TOKENS)}
