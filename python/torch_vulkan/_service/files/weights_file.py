"""Weights of an ONNX model from a .safetensors file: put into the model as external data, which the
compiler maps, so nothing of them is copied. Standard library alone: tasks read files of strangers.
"""

import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .protobuf import Damaged, fields

_MOST_HEADER = 100_000_000  # safetensors' own limit
_MOST_REASONS = 20
_PIECE = 1 << 20
_VARINT, _BYTES = 0, 2
_GRAPH, _INITIALIZER, _INPUT = 7, 5, 11
# safetensors' name → TensorProto.DataType, bits.
_DTYPES = {"F32": (1, 32), "U8": (2, 8), "I8": (3, 8), "U16": (4, 16), "I16": (5, 16),
           "I32": (6, 32), "I64": (7, 64), "BOOL": (9, 8), "F16": (10, 16), "F64": (11, 64),
           "U32": (12, 32), "U64": (13, 64), "BF16": (16, 16), "F8_E4M3": (17, 8),
           "F8_E5M2": (19, 8)}
_NAMES = {number: name for name, (number, _) in _DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """`dtype`: as ONNX numbers it; `begin`: in the file."""

    dtype: int
    shape: tuple[int, ...]
    begin: int
    size_bytes: int


def tensors_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, by name. Raises ValueError for a file that is none."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            raise ValueError("[weights] it is no .safetensors file, or cut short")
        text = file.read(length)
    try:
        read = json.loads(text, object_pairs_hook=_once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("[weights] it is no .safetensors file: its header is no JSON") from None
    if not isinstance(read, dict):
        raise ValueError("[weights] it is no .safetensors file: its header is no object")
    return {name: _tensor(name, given, 8 + length, size) for name, given in read.items()
            if name != "__metadata__"}


def _once(pairs: list) -> dict:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("[weights] a name is twice in the .safetensors file's header")
    return made


def _tensor(name: str, given, start: int, size: int) -> Tensor:
    given = given if isinstance(given, dict) else {}
    dtype, shape, place = (given.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"[weights] {name[:200]!a} has the dtype {str(dtype)[:80]!a}, want one of "
                         f"{', '.join(_DTYPES)}")
    if not (_sizes(shape) and _sizes(place) and len(place) == 2 and place[0] <= place[1]
            and start + place[1] <= size):
        raise ValueError(f"[weights] {name[:200]!a} has a wrong shape or wrong data_offsets")
    number, bits = _DTYPES[dtype]
    numel = 1
    for dim in shape:
        numel = min(numel * dim, 1 << 62)
    if numel * bits // 8 != place[1] - place[0]:
        raise ValueError(f"[weights] {name[:200]!a} has {place[1] - place[0]} bytes, and its shape "
                         f"wants {numel * bits // 8}")
    return Tensor(number, tuple(shape), start + place[0], place[1] - place[0])


def _sizes(values) -> bool:
    return isinstance(values, list) and len(values) <= 64 and all(
        type(value) is int and 0 <= value < 2 ** 62 for value in values)


def put_into(model: Path, weights: Path, out: Path) -> int:
    """Writes the ONNX model with the tensors of `weights`, which lies in its folder, in place of
    its initialisers and inputs of the same names; returns how many they are.

    Raises:
        ValueError: a file is damaged, or a tensor has a name that the model has not, or another
            shape or dtype than there.
    """
    tensors = tensors_of(weights)
    try:
        if not os.path.getsize(model):
            raise Damaged
        with (open(model, "rb") as file,
              mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
              memoryview(data) as view):
            pieces = _model(view, tensors, weights.name)
            try:
                with open(out, "xb") as made:
                    for piece in pieces:
                        for at in range(0, len(piece), _PIECE):
                            made.write(piece[at:at + _PIECE])
            finally:
                for piece in pieces:  # or the file could not be closed
                    if isinstance(piece, memoryview):
                        piece.release()
    except (Damaged, UnicodeDecodeError):
        raise ValueError("[weights] the model is no ONNX file, or it is damaged") from None
    return len(tensors)


def _model(view, tensors: dict[str, Tensor], location: str) -> list:
    graphs = [(at, end) for field, at, end in fields(view, 0, len(view))
              if field == _GRAPH and end is not None]
    if len(graphs) != 1:
        raise Damaged
    kept, wrong, known = [], [], set()
    for field, at, end in fields(view, *graphs[0]):
        name = None
        if end is not None and field in (_INITIALIZER, _INPUT):
            name, dtype, shape = (_initializer if field == _INITIALIZER else _input)(view, at, end)
        if name is None or name not in tensors:
            kept.append((field, at, end))
            continue
        known.add(name)
        if why := _differs(tensors[name], dtype, shape):
            wrong.append(f"[weights] {name[:200]!a}: {why}")
    wrong += [f"[weights] the model has no initialiser and no input {name[:200]!a}"
              for name in tensors if name not in known]
    if wrong:
        more = len(wrong) - _MOST_REASONS
        raise ValueError("\n".join(wrong[:_MOST_REASONS] + [f"and {more} more"] * (more > 0)))
    body = [piece for one in kept for piece in _copied(view, *one)]
    body += [_field(_INITIALIZER, _external(name, tensor, location))
             for name, tensor in tensors.items()]
    made = []
    for field, at, end in fields(view, 0, len(view)):
        if field == _GRAPH and end is not None:
            made += [_number(_GRAPH << 3 | _BYTES), _number(sum(map(len, body))), *body]
        else:
            made += _copied(view, field, at, end)
    return made


def _differs(tensor: Tensor, dtype: int, shape: list) -> str:
    """Why it is no such tensor; "": it is. A size of None may be any."""
    fits = shape is None or (len(shape) == len(tensor.shape) and all(
        want in (None, have) for want, have in zip(shape, tensor.shape, strict=True)))
    if fits and dtype == tensor.dtype:
        return ""
    wanted = "any shape" if shape is None else [
        "?" if size is None else size for size in shape]
    return (f"the weights have {_NAMES[tensor.dtype]} {[*tensor.shape]}, and the model wants "
            f"{_NAMES.get(dtype, f'data type {dtype}')} {wanted}")


def _initializer(view, at: int, end: int) -> tuple[str, int, list]:
    name, dtype, shape = "", 0, []
    for field, a, b in fields(view, at, end):
        if field == 1:
            shape += [a] if b is None else _packed(view, a, b)
        elif field == 2 and b is None:
            dtype = a
        elif field == 8 and b is not None:
            name = bytes(view[a:b]).decode()
    return name, dtype, shape


def _input(view, at: int, end: int) -> tuple[str, int, list | None]:
    """Of a ValueInfoProto; a shape of None: it has none."""
    name, dtype, shape = "", 0, None
    for field, a, b in fields(view, at, end):
        if field == 1 and b is not None:
            name = bytes(view[a:b]).decode()
    for tensor in _inside(view, (at, end), 2, 1):  # type, tensor_type
        for field, a, b in fields(view, *tensor):
            if field == 1 and b is None:
                dtype = a
        for dims in _inside(view, tensor, 2):
            shape = [next((a for field, a, b in fields(view, *dim) if field == 1 and b is None),
                          None) for dim in _inside(view, dims, 1)]
    return name, dtype, shape


def _inside(view, place: tuple[int, int], *path: int) -> Iterator[tuple[int, int]]:
    """The places of the messages at the end of a path of fields."""
    if not path:
        yield place
        return
    for field, a, b in fields(view, *place):
        if field == path[0] and b is not None:
            yield from _inside(view, (a, b), *path[1:])


def _packed(view, at: int, end: int) -> list[int]:
    # Each as if a field's tag stood before it: one reader of integers.
    text, values, begin = bytes(view[at:end]), [], 0
    for i, byte in enumerate(text):
        if byte < 128:
            one = b"\x08" + text[begin:i + 1]
            values += [value for _, value, _ in fields(one, 0, len(one))]
            begin = i + 1
    return values


def _external(name: str, tensor: Tensor, location: str) -> bytes:
    made = b"".join(_number(1 << 3) + _number(size) for size in tensor.shape)
    made += _number(2 << 3) + _number(tensor.dtype) + _field(8, name.encode())
    if not tensor.size_bytes:
        return made + _field(9, b"")
    for key, value in (("location", location), ("offset", str(tensor.begin)),
                       ("length", str(tensor.size_bytes))):
        made += _field(13, _field(1, key.encode()) + _field(2, value.encode()))
    return made + _number(14 << 3) + _number(1)


def _copied(view, field: int, at: int, end: int | None) -> list:
    if end is None:
        return [_number(field << 3 | _VARINT) + _number(at)]
    return [_number(field << 3 | _BYTES) + _number(end - at), view[at:end]]


def _field(number: int, data: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(data)) + data


def _number(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
