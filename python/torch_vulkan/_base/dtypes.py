"""Dtypes: by their names, as the compiler has them, and what becomes of them."""

import torch

from .._native import C

DTYPES = {name: getattr(torch, name)
          for name in ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16",
                       "int8", "uint8", "bool")}
# As the compiler has them.
KINDS = {dtype: getattr(C.DType, name) for name, dtype in DTYPES.items()}
# Of what complex numbers are made.
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64,
         torch.complex32: torch.float16}
_OF_KINDS = {kind: dtype for dtype, kind in KINDS.items()}
# What engines hold under truncate_long_and_double of the dtypes that it changes (csrc/precision.h).
NARROWED = {dtype: _OF_KINDS[C.truncated(kind)] for dtype, kind in KINDS.items()
            if C.truncated(kind) != kind}


def to_kind(dtype: torch.dtype):
    """The compiler's dtype; `other` for what engines never hold."""
    return KINDS.get(dtype, C.DType.other)
