"""What a run leaves, checked: it read a model that may be hostile."""

import json
import re
from pathlib import Path

from ..running import timings
from ..storage.store import open_plain
from ..storage.tables import State

_LONGEST_RESULT = 1 << 20
_TEXTS = {"version": re.compile(r"[ -~]{0,100}"), "builder": re.compile(r"[ -~\n]{0,1000}"),
          "engine_key": re.compile(r"[0-9a-f]{64}")}


def read_timings(folder: Path) -> bytes | None:
    """What the run learnt of its device; None: nothing that can be read."""
    try:
        with open_plain(folder / timings.NAME) as file:
            return file.read(timings.LONGEST + 1)
    except (OSError, ValueError):
        return None


def read_result(path: Path) -> dict:
    """Raises ValueError for anything but a result."""
    with open_plain(path) as file:
        data = file.read(_LONGEST_RESULT + 1)
    if len(data) > _LONGEST_RESULT:
        raise ValueError(f"{path.name} is too long")
    result = json.loads(data)
    kinds = {"state": str, "reasons": list}
    if isinstance(result, dict) and result.get("state") == State.COMPLETED:
        kinds |= {"tuned": bool, **dict.fromkeys(_TEXTS, str)}
    elif not isinstance(result, dict) or result.get("state") != State.FAILED:
        raise ValueError(f"{path.name} names no state")
    for name, kind in kinds.items():
        if not isinstance(result.get(name), kind):
            raise ValueError(f"{path.name}: {name}: want {kind.__name__}")
    for name, wanted in _TEXTS.items():
        if name in kinds and not wanted.fullmatch(result[name]):
            raise ValueError(f"{path.name}: {name}: want {wanted.pattern}")
    if not all(isinstance(line, str) for line in result["reasons"]):
        raise ValueError(f"{path.name}: reasons: want lines")
    return result
