"""Which files are graph files, as tv.export_graph writes them. Standard library alone."""

import os

from . import bundle

_HEAD = 9


def is_graph(head: bytes) -> bool:
    """By the first bytes: those of a .safetensors file, the length of its header and the brace that
    begins it. No ONNX file begins so: zeros are no field of a protobuf."""
    return head[4:8] == bytes(4) and head[8:_HEAD] == b"{"


def is_graph_file(path: str | os.PathLike) -> bool:
    """Whether it is one, or a bundle of one."""
    with open(path, "rb") as file:
        try:
            if bundle.entries_of(file) is None:
                file.seek(0)
        except ValueError:
            return False
        return is_graph(file.read(_HEAD))
