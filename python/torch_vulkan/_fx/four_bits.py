"""Which weights of int8 hold integers of 4 bits: torchao's IntxUnpackedToInt8Tensor says so in its
`target_dtype`, which a graph that reads the int8 tensor inside no longer shows."""

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._torch import compat
from . import captured_tensors

FOUR_BITS = "torch_vulkan_four_bits"
_DTYPES = (torch.int1, torch.int2, torch.int3, torch.int4)
_INSIDE, _ZERO_POINT = "qdata", "zero_point"


def mark_argument(node: fx.Node) -> None:
    """Marks, for the importer, a placeholder that AOTAutograd has made of the int8 tensor inside of
    a weight of 4 bits."""
    description = node.meta.get("desc")
    outer = captured_tensors.described(getattr(description, "base", None))
    if getattr(description, "attr", None) == _INSIDE and holds_four_bits(outer):
        node.meta[FOUR_BITS] = True


def mark_decomposed(source, program) -> None:
    """The same for the arguments of an ExportedProgram that torch.export has made of `source` by
    decomposing it: it names what it takes out of a tensor as a parametrization does."""
    marked = set()
    for name, outer in {**source.constants, **source.state_dict}.items():
        if holds_four_bits(outer):
            path, _, attribute = name.rpartition(".")
            inside = f"original{outer.__tensor_flatten__()[0].index(_INSIDE)}"
            marked.add(".".join(filter(None, (path, "parametrizations", attribute, inside))))
    nodes = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        if spec.target in marked:
            node.meta[FOUR_BITS] = True


def holds_four_bits(outer) -> bool:
    """Whether a tensor of a subclass says that its int8 elements are of 4 bits, and they are: what
    is beyond, which nothing keeps out of such a tensor, stays in 8."""
    if not is_traceable_wrapper_subclass(outer) or (
            getattr(outer, "target_dtype", None) not in _DTYPES):
        return False
    integers = getattr(outer, _INSIDE, None)
    zeros = getattr(outer, _ZERO_POINT, None)
    return captured_tensors.has_values(integers) and integers.dtype == torch.int8 and all(
        _fit(tensor) for tensor in (integers, zeros)
        if captured_tensors.has_values(tensor) and tensor.dtype == torch.int8)


def _fit(integers: torch.Tensor) -> bool:
    with compat.no_fake_mode(), torch.no_grad():
        least, most = integers.aminmax()
        return bool(least >= -8) and bool(most <= 7)
