"""The fields of a protobuf message, of which nothing is copied. Standard library alone."""

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Damaged(Exception):
    """No protobuf, or one that is cut."""


def fields(data, at: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Number, begin and end of each field that has a length; of an integer its value and None."""
    while at < end:
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at, end)
            if size > end - at:
                raise Damaged
            yield tag >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            value, at = _varint(data, at, end)
            yield tag >> 3, value, None
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise Damaged
    if at > end:
        raise Damaged


def _varint(data, at: int, end: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        if at + i >= end:
            break
        byte = data[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise Damaged
