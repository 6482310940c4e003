"""Which files an ONNX model names: found by walking its protobuf, of which nothing is copied but
those names. Standard library alone.
"""

import contextlib
import mmap
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from .bundle import MAGIC, Source
from .graph_files import is_graph
from .protobuf import Damaged, fields
from .weights_file import tensors_of

_DEEPEST, _LONGEST = 64, 4096
_PLACE, _EXTERNAL = 14, 1  # TensorProto.data_location
_NAME, _INITIALIZER_DEPTH = 8, 2  # TensorProto.name; of the main graph
# onnx.proto3: message → field → the message in it, on the way to tensors.
_WAY = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def source_of(model: str | os.PathLike, weights: str | os.PathLike | None = None) -> Source:
    """The model with the files that it names beside it, and a .safetensors file of its weights. A
    file that is damaged, or no model, is sent as it is: the service says what is wrong with it.

    Raises:
        ValueError, OSError: as Source does.
    """
    given: Collection[str] = ()
    if weights is not None:
        with contextlib.suppress(ValueError):
            given = tensors_of(Path(weights))
    return Source(model, data_files(Path(model), given), weights)


def data_files(path: Path, given: Collection[str] = ()) -> list[str]:
    """The locations of external data, each once, in order, but for that of initialisers whose
    names are `given`."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:len(MAGIC)] == MAGIC:
                raise ValueError(f"{path}: want a model, and it is a bundle of one")
            if is_graph(data[:16]):
                return []
            found: set[str] = set()
            try:
                for entry in _entries(data, (0, len(data)), "model", given):
                    if entry.get(1) == b"location":
                        found.add(_normal(entry.get(2, b"").decode()))
            except (Damaged, UnicodeDecodeError):
                return []
    return sorted(found)


def _normal(location: str) -> str:
    """As the compiler does: "./a" is "a". What leads elsewhere stays, and is refused."""
    absolute = location.startswith("/")
    return "/" * absolute + "/".join(part for part in location.split("/") if part not in ("", "."))


def _entries(data, place: tuple[int, int], kind: str, given: Collection[str], depth: int = 0
             ) -> Iterator[dict[int, bytes]]:
    """The key-value pairs of all tensors' external_data."""
    at, end = place
    if depth > _DEEPEST:
        raise Damaged
    if kind == "tensor" and not any(field == _PLACE and stop is None and value == _EXTERNAL
                                    for field, value, stop in fields(data, at, end)):
        return
    if kind == "tensor" and depth == _INITIALIZER_DEPTH and given and any(
            field == _NAME and stop is not None and data[value:stop].decode() in given
            for field, value, stop in fields(data, at, end)):
        return
    for field, start, stop in fields(data, at, end):
        if stop is None:
            continue
        inner = _WAY[kind].get(field)
        if inner == "entry":
            yield {number: data[a:b] for number, a, b in fields(data, start, stop)
                   if b is not None and b - a <= _LONGEST}
        elif inner:
            yield from _entries(data, (start, stop), inner, given, depth + 1)
