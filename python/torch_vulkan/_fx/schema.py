"""Operators' schemas and dtypes as the compiler has them."""

import functools

import torch

from .._native import C

DTYPES = {getattr(torch, name): getattr(C.DType, name)
           for name in ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16",
                        "int8", "uint8", "bool")}
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64,
          torch.complex32: torch.float16}
# What engines hold under truncate_long_and_double (csrc/passes/truncate.h).
NARROWED = {torch.float64: torch.float32, torch.int64: torch.int32}


def to_dtype(dtype: torch.dtype):
    """The compiler's dtype; `other` for what engines never hold."""
    return DTYPES.get(dtype, C.DType.other)


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
