"""Operators' schemas, and which tensors are plain ones."""

import functools

import torch


@functools.cache
def _plain_types() -> set[type]:
    from torch._subclasses.fake_tensor import FakeTensor

    return {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor}


def is_plain(tensor: torch.Tensor) -> bool:
    """True for a tensor of no subclass but PyTorch's own."""
    return type(tensor) in _plain_types()


@functools.cache
def argument_kinds(target) -> tuple:
    """(name, kind, default) of each argument of an operator's schema."""
    kinds = []
    for argument in target._schema.arguments:
        text = str(argument.type)
        kind = "tensor" if text in ("Tensor", "Optional[Tensor]") else (
            "tensors" if text in ("List[Tensor]", "List[Optional[Tensor]]") else "attr")
        default = argument.default_value if argument.has_default_value() else None
        kinds.append((argument.name, kind, default))
    return tuple(kinds)


def with_scalar(target, argument: str):
    """The overload that takes a number for this tensor argument of `target` and tensors for the
    others; None if there is none."""
    overload = target._schema.overload_name
    name = {"Tensor": "Scalar", "Tensor_mode": "Scalar_mode",
            "Tensor_Tensor": "Tensor_Scalar"}.get(overload)
    packet = target.overloadpacket
    if not name or name not in packet.overloads():
        return None
    scalar = getattr(packet, name)
    changed = [mine[0] for mine, its in zip(argument_kinds(target), argument_kinds(scalar),
                                            strict=False) if mine[1] != its[1]]
    return scalar if changed == [argument] else None
