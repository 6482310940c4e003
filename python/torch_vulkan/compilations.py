"""What the backend made of the graphs that it received in this process."""

import threading
from dataclasses import dataclass, field

from ._engines.background import Tuning

__all__ = ["Compilation", "EngineRecord", "NativeRecord", "clear", "compilations", "record"]

def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True)
class NativeRecord:
    """A node that PyTorch runs: operator, reason, and where it comes from."""

    op: str
    reason: str
    source: str = ""
    module_path: str = ""


@dataclass(frozen=True)
class EngineRecord:
    """One engine: its name, the compute nodes it covers, its dispatches, its build time (s).

    With the setting background_tuning these are of the engine that answers first, and `tuning` says
    what became of the one that is to take its place; None: there is no other.
    """

    name: str
    compute_nodes: int
    dispatches: int
    build_s: float
    tuning: Tuning | None = None


@dataclass(frozen=True)
class Compilation:
    """One captured graph.

    Attributes:
        kind: "inference", "forward" or "backward".
        compute_nodes: number of nodes that do work (views and getitem are free).
        covered_nodes: number of those inside engines.
        engines: in order of execution.
        native: nodes left to PyTorch.
    """

    kind: str
    compute_nodes: int
    covered_nodes: int
    engines: list[EngineRecord] = field(default_factory=list)
    native: list[NativeRecord] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """Share of the compute nodes that run in engines; 1.0 for a graph without any."""
        return self.covered_nodes / self.compute_nodes if self.compute_nodes else 1.0


_lock = threading.Lock()
_records: list[Compilation] = []


def record(compilation: Compilation) -> None:
    """Called by the backend once per graph."""
    with _lock:
        _records.append(compilation)


def compilations() -> list[Compilation]:
    """Every graph compiled since the start, or the last `clear`, oldest first. Thread-safe."""
    with _lock:
        return list(_records)


def clear() -> None:
    """Forgets all records."""
    with _lock:
        _records.clear()
