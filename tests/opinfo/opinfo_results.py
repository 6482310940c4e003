"""Results of samples on disk: a line of JSON each, so that a run that was stopped goes on.

A sample that ends the process leaves a line that it began and none that it ended: a crash.
"""

import json
from pathlib import Path


class Results:
    """The files of a directory. Each writer appends to a file of its own."""

    def __init__(self, directory: Path, writer: str = "0"):
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path = self._directory / f"{writer}.jsonl"
        self._file = None

    def begin(self, sample: str) -> None:
        self._write({"sample": sample, "began": True})

    def end(self, sample: str, outcome: dict) -> None:
        self._write({"sample": sample, **outcome})

    def _write(self, record: dict) -> None:
        if self._file is None:
            self._file = self._path.open("a")
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def read(self) -> dict[str, dict]:
        """sample → outcome; the last line counts."""
        found = {}
        for path in sorted(self._directory.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # the process ended while it wrote
                sample = record.pop("sample")
                if record.pop("began", False):
                    record = {"kind": "crash", "reason": "the process ended"}
                found[sample] = record
        return found


    def write_compact(self, path: Path) -> None:
        """All outcomes as one file, which `read` takes again."""
        with path.open("w") as file:
            for sample, outcome in sorted(self.read().items()):
                file.write(json.dumps({"sample": sample, **outcome}, separators=(",", ":")) + "\n")


def by_entry(results: dict[str, dict], dtype: str = "float32") -> dict[str, list[dict]]:
    """entry → outcomes of its samples of one dtype, without gradients."""
    entries: dict[str, list[dict]] = {}
    for sample, outcome in results.items():
        entry, of, *rest = sample.split("/")
        if of == dtype and rest[0] != "grad":
            entries.setdefault(entry, []).append(outcome)
    return entries


def verdict(outcomes: list[dict]) -> str:
    """What becomes of an entry: "engine" (all of its samples that do work), "native" (not all),
    "wrong" (or a crash), "free" (no sample does work), and "random" or "data" (it draws random
    numbers, or has sizes that depend on data), which are PyTorch's."""
    kinds = {o["kind"] for o in outcomes} - {"free", "skipped"}
    reasons = " ".join(str(r) for o in outcomes for r in (o.get("native") or {}).values())
    if kinds & {"wrong", "crash"}:
        return "wrong"
    if "random numbers" in reasons:
        return "random"
    if "depend on data" in reasons or "depends on data" in reasons:
        return "data"
    if "native" in kinds:
        return "native"
    return "engine" if kinds else "free"
