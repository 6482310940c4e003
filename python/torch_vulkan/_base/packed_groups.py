"""Tensors that mean something together only: a quantised weight's elements and their scales."""

import re
from collections.abc import Collection

_PACKED = ("weight_scale", "weight_zero_point", "weight_tensor_scale")  # beside "weight"
_FLATTENED = re.compile(r"(.*\.parametrizations\..*\.original)\d+$")  # of a tensor subclass


def group_of(name: str, names: Collection[str]) -> list[str]:
    """Those of `names` that make one quantised weight with the tensor `name`, itself included.

    Of tv.quantize's modules these are weight, weight_scale and their like; of torchao's tensors in
    a program, what torch flattens them to (parametrizations.weight.original0, 1, …).
    """
    flattened = _FLATTENED.match(name)
    if flattened:
        return [n for n in names if n.startswith(flattened[1]) and _FLATTENED.match(n)]
    owner = name.rpartition(".")[0]
    prefix = f"{owner}." if owner else ""
    parts = [prefix + part for part in ("weight", *_PACKED) if prefix + part in names]
    is_packed = prefix + "weight_scale" in names and name in parts
    return parts if is_packed and len(parts) > 1 else [name]


def missing_parts(given: Collection[str], names: Collection[str]) -> tuple[str, list[str]] | None:
    """(a tensor that is given, the parts of its weight that are not) of the first such weight."""
    for name in given:
        missing = [part for part in group_of(name, names) if part not in given]
        if missing:
            return name, missing
    return None
