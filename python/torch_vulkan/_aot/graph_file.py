"""Graphs without weights, as bytes: what is stored beside engines to build from."""

import copy
import io
import warnings
import zlib

import torch
from torch.export import ExportedProgram


def hollow(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape that takes one element's memory."""
    empty = torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def pack(program: ExportedProgram) -> bytes:
    """An ExportedProgram whose parameters, buffers and constants hold nothing."""
    stripped = copy.copy(program)
    stripped._state_dict = {name: hollow(t) for name, t in program.state_dict.items()}
    stripped._constants = {name: hollow(t) if isinstance(t, torch.Tensor) else t
                           for name, t in program.constants.items()}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No complete tensor")
        torch.export.save(stripped, buffer)
    return zlib.compress(buffer.getvalue())


def unpack(data: bytes) -> ExportedProgram:
    """The inverse."""
    return torch.export.load(io.BytesIO(zlib.decompress(data)))
