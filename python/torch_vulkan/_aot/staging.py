"""Weights that engines prepare before the tensors change."""

from collections.abc import Iterable

import torch


def stage(engines: Iterable[tuple], changes: list[tuple[torch.Tensor, torch.Tensor]],
          ) -> list[tuple]:
    """Lets engines compute what they need of new values for some of their weights, which are yet to
    be copied; returns what `commit` takes then, or `discard`. On an error nothing has changed.

    Args:
        engines: (engine, its weights in its order) of each.
        changes: (tensor, its new value) of each.
    """
    values = {id(tensor): value for tensor, value in changes}
    staged = []
    try:
        for engine, weights in engines:
            positions = [i for i, weight in enumerate(weights) if id(weight) in values]
            if positions:
                new = [values[id(weights[i])] for i in positions]
                staged.append((engine, weights, engine.stage(weights, positions, new)))
    except BaseException:
        discard(staged)
        raise
    return staged


def commit(staged: list[tuple]) -> None:
    """The tensors now hold what was staged."""
    for engine, weights, number in staged:
        engine.commit(number, weights)


def discard(staged: list[tuple]) -> None:
    """The tensors stay as they were."""
    for engine, _, number in staged:
        engine.discard(number)
