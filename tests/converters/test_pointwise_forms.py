"""Every pointwise operator of the registry that takes arguments or several tensors, by its schema:
broadcast, views, no elements, sizes that change, integers. A new row is among them."""

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import torch_vulkan as tv

from marks import slow_but
from parity import check, tensor

aten = torch.ops.aten
# Required arguments that are not tensors, by type.
VALUES = {"number": 2, "Optional[number]": 2, "int": 1, "float": 2.0, "bool": False, "Optional[str]": "floor"}
# What a call by the schema alone does not mean; both have tests of their own.
LEFT_OUT = {
    "log_sigmoid_backward": "its buffer is what log_sigmoid_forward wrote, of which engines need none",
    "polygamma": "at its poles eager's float32 gives a large number for infinity",
}
TENSORS = ("Tensor", "Optional[Tensor]")
PARTS = 12


def operators():
    found = []
    for info in tv.supported_ops():
        namespace, _, name = info["op"].partition("::")
        packet, _, overload = name.partition(".")
        if info["kind"] != "pointwise" or namespace != "aten" or packet in LEFT_OUT:
            continue
        op = getattr(getattr(aten, packet), overload or "default")
        types = [(str(a.type), a.has_default_value()) for a in op._schema.arguments]
        made = any("Device" in text for text, _ in types)  # creation, casts: tests of their own
        if not made and len(types) > 1 and any(text in TENSORS for text, _ in types):
            found.append(op)
    return found


SHAPES = ((7, 11), (11,), (7, 1))  # of the first tensor, the second, the third: they broadcast
KINDS = {
    "float": lambda shape, k: tensor(*shape[:-1], 2 * shape[-1], seed=k)[..., ::2].mul(8).round() / 4,
    "bool": lambda shape, k: tensor(*shape, seed=k) > 0,
    "int": lambda shape, k: tensor(*shape, dtype=torch.int32, low=1, high=4, seed=k),
    "number": lambda shape, k: tensor(1, seed=k).mul(4).round()[0],
}


def call_of(op, kinds, shapes=SHAPES):
    """The tensors of a call, and a function of them; None where PyTorch does not take the call."""
    tensors, places, rest, named = [], [], [], {}
    for argument in op._schema.arguments:
        text = str(argument.type)
        if text in TENSORS:
            k = len(tensors)
            places.append(len(rest))
            tensors.append(KINDS[kinds[k]](shapes[k], k))
            rest.append(None)
        elif argument.kwarg_only:
            named |= {} if argument.has_default_value() else {argument.name: VALUES[text]}
        elif not argument.has_default_value() or text == "Optional[number]":
            rest.append(VALUES[text])

    def call(*given):
        values = list(rest)
        for place, value in zip(places, given, strict=True):
            values[place] = value
        return op(*values, **named)

    try:
        call(*tensors)
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:  # where sizes are symbols, which some refuse
            call(*map(mode.from_tensor, tensors))
    except (RuntimeError, NotImplementedError):
        return None
    return tensors, call


def calls_of(op):
    """A call of floats, or as near to it as eager takes it, and one of integers where it takes them."""
    count = sum(str(a.type) in TENSORS for a in op._schema.arguments)
    by_floats = sorted(itertools.product(KINDS, repeat=count),
                       key=lambda kinds: sum(k != "float" for k in kinds))
    alike = (SHAPES[0],) * count
    first = next((c for kinds in by_floats for shapes in (SHAPES, alike)
                  if (c := call_of(op, kinds, shapes))), None)
    integers = call_of(op, ("int",) * count)
    return [c for c in (first, integers) if c]


@pytest.mark.parametrize("part", slow_but((0,), range(PARTS)))
def test_forms(part):
    mine = operators()[part::PARTS]
    assert len(mine) > 8
    found = {op: calls_of(op) for op in mine}
    assert [op for op, calls in found.items() if not calls] == [], "eager takes none of the calls here"
    calls = [c for some in found.values() for c in some]
    tensors = [t for given, _ in calls for t in given]
    ends = list(itertools.accumulate(len(given) for given, _ in calls))

    def program(*tensors):
        return [call(*tensors[end - len(given):end])
                for (given, call), end in zip(calls, ends, strict=True)]

    empty = tuple(t[:0] if t.dim() == 2 and t.shape[0] > 1 else t for t in tensors)
    check(program, *tensors)
    check(program, *tensors, more=[empty], dynamic=True)
