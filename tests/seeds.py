"""The seed of what tests draw at random, another in each run, and the turn of what takes turns,
the next one for each commit. Processes that pytest-xdist starts have both."""

import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path


def _turn() -> str:
    """What TV_TEST_SEED says, or the number of commits."""
    script = Path(__file__).parents[1] / "scripts" / "turn.sh"
    return os.environ.get("TV_TEST_SEED") or subprocess.check_output([script], text=True).strip()


if "TV_TEST_TURN" not in os.environ:
    os.environ["TV_TEST_TURN"] = _turn()
TURN = int(os.environ["TV_TEST_TURN"])
SEED = int(os.environ.setdefault("TV_TEST_SEED", str(secrets.randbelow(2**32))))


def share_of(items: Sequence, shares: int, turn: int = TURN) -> list:
    """One of `shares` parts of the items, spread over all of them; turns in a row take each."""
    return list(items[turn % shares::shares])


def whose_turn(cases: Sequence[dict], shares: int, each: Sequence[str] = (),
               turn: int = TURN) -> set[int]:
    """The places of one of `shares` parts of the cases, as `share_of` takes them, and of one more
    case for each value that a parameter in `each` has in no case of the part."""
    taken = set(share_of(range(len(cases)), shares, turn))
    for name in each:
        having: dict = {}
        for place, case in enumerate(cases):
            if name in case:
                having.setdefault(case[name], []).append(place)
        for places in having.values():
            if not taken.intersection(places):
                taken.add(places[turn // shares % len(places)])
    return taken
