"""2:4 sparsity by magnitude: of each four neighbours in a row the two largest stay."""

from collections.abc import Iterable

import torch
from torch import nn

SPARSITIES = (None, "2:4")


def check(sparsity) -> None:
    if sparsity not in SPARSITIES:
        raise ValueError(f"tv.quantize: sparsity={sparsity!r}, want one of {[*SPARSITIES]}")


def pruned(name: str, weight: torch.Tensor) -> torch.Tensor:
    """A copy of a matrix `[rows, columns]` with two zeros in each four neighbours of a row; of
    equal magnitudes the first ones stay.

    Raises:
        ValueError: 4 does not divide the columns; the message has `name`.
    """
    rows, columns = weight.shape
    if columns % 4:
        raise ValueError(f"tv.quantize: sparsity='2:4': 4 does not divide the {columns} columns of "
                         f"{name!r}; leave the layer out with exclude=")
    fours = weight.detach().reshape(rows, columns // 4, 4)
    smallest = fours.abs().argsort(dim=-1, descending=True, stable=True)[..., 2:]
    return fours.scatter(-1, smallest, 0).reshape(rows, columns)


def prune(layers: Iterable[tuple[str, nn.Linear]]) -> None:
    """Gives layers pruned weights: parameters of their own, so that what else has the old ones (a
    tied embedding) keeps them. Layers that shared a weight share the new one."""
    layers = list(layers)
    made = {id(layer.weight): pruned(f"{name}.weight" if name else "weight", layer.weight)
            for name, layer in layers}
    parameters = {id(layer.weight): layer.weight for _, layer in layers}
    for key, old in parameters.items():
        made[key] = nn.Parameter(made[key], requires_grad=old.requires_grad)
    for _, layer in layers:
        layer.weight = made[id(layer.weight)]
