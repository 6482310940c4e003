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
# What engines hold under truncate_long_and_double (csrc/passes/simplify/truncate.h).
NARROWED = {torch.float64: torch.float32, torch.int64: torch.int32}


def to_kind(dtype: torch.dtype):
    """The compiler's dtype; `other` for what engines never hold."""
    return KINDS.get(dtype, C.DType.other)
