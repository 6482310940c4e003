"""The seed of what tests draw at random: another in each run, or what TV_TEST_SEED says."""

import os
import secrets
from collections.abc import Sequence

# Set for the processes that pytest-xdist starts, too.
SEED = int(os.environ.setdefault("TV_TEST_SEED", str(secrets.randbelow(2**32))))


def share_of(items: Sequence, shares: int, seed: int = SEED) -> list:
    """One of `shares` parts of the items, spread over all of them; consecutive seeds take each."""
    return list(items[seed % shares::shares])
