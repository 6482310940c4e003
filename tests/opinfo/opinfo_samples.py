"""Which samples of torch's own op_db there are, by stable names.

A sample is "entry/dtype/number", its inputs reproducible: the generator is seeded for each entry
and dtype.
"""

import hashlib
import itertools
import random
from dataclasses import dataclass

import numpy
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool)

# Values that nobody set.
UNINITIALISED = {"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted",
                 "new_empty_strided"}


def seed_cpu(seed=None):
    seed = common_utils.SEED if seed is None else seed
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


# torch looks through the source of the whole stack for a TestCase, which there is not, and seeds
# other devices, noting the stack once more: a third of the time of a test.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None
common_utils.set_rng_seed = seed_cpu


@dataclass(frozen=True)
class Pair:
    """An entry of op_db at one dtype; of the gradient, where `gradient`."""

    entry: str
    dtype: torch.dtype
    gradient: bool = False

    @property
    def name(self) -> str:
        text = f"{self.entry}/{str(self.dtype).removeprefix('torch.')}"
        return f"{text}/grad" if self.gradient else text


ENTRIES = {op.formatted_name: op for op in op_db}


def pairs(dtypes=DTYPES, gradient=False) -> list[Pair]:
    """Every entry at every dtype that it takes on a CPU, in order of op_db."""
    found = []
    for name, op in ENTRIES.items():
        if gradient and not op.supports_autograd:
            continue
        takes = op.supported_backward_dtypes("cpu") if gradient else op.supported_dtypes("cpu")
        found.extend(Pair(name, dtype, gradient) for dtype in dtypes if dtype in takes)
    return found


def samples(pair: Pair) -> list:
    """The inputs that torch tests the pair with."""
    seed_cpu(0)
    return list(ENTRIES[pair.entry].sample_inputs("cpu", pair.dtype))


def chosen(pair: Pair, count: int, most: int | None) -> list[int]:
    """At most `most` of the numbers 0 … count-1: the first and then by hash."""
    if most is None or count <= most:
        return list(range(count))
    return sorted(sorted(range(count), key=lambda i: _hash(f"{pair.name}/{i}"))[:most])


def by_hash(items: list[Pair], most: int, seed: str = "") -> list[Pair]:
    """`most` of the pairs, always the same ones for a seed, in an order of their own."""
    return list(itertools.islice(sorted(items, key=lambda p: _hash(seed + p.name)), most))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
