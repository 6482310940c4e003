"""The seed of what tests draw at random: another in each run, or what TV_TEST_SEED says."""

import os
import secrets
from collections.abc import Sequence

# Set for the processes that pytest-xdist starts, too.
SEED = int(os.environ.setdefault("TV_TEST_SEED", str(secrets.randbelow(2**32))))


def share_of(items: Sequence, shares: int, seed: int = SEED) -> list:
    """One of `shares` parts of the items, spread over all of them; consecutive seeds take each."""
    return list(items[seed % shares::shares])


def whose_turn(cases: Sequence[dict], shares: int, each: Sequence[str] = (),
               seed: int = SEED) -> set[int]:
    """The places of one of `shares` parts of the cases, as `share_of` takes them, and of one more
    case for each value that a parameter in `each` has in no case of the part."""
    taken = set(share_of(range(len(cases)), shares, seed))
    for name in each:
        having: dict = {}
        for place, case in enumerate(cases):
            if name in case:
                having.setdefault(case[name], []).append(place)
        for places in having.values():
            if not taken.intersection(places):
                taken.add(places[seed // shares % len(places)])
    return taken
