"""Amounts for people."""


def size(count: int) -> str:
    """Bytes."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def operations(count: int) -> str:
    """Floating-point operations."""
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "FLOP" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TFLOP"


def plural(count: int, noun: str) -> str:
    """"1 engine", "2 engines"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
