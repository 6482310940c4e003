"""What the partition left to PyTorch, in messages and records."""

from .._base.errors import OUT_OF_MEMORY
from ..compilations import NativeRecord
from .refusals import WholeGraph
from .splitting import Split


def _line(record: NativeRecord) -> str:
    where = " ".join(part for part in (record.source, record.module_path) if part)
    return f"{record.op}: {record.reason}" + (f" ({where})" if where else "")


def in_the_way(parts: Split) -> str:
    """The message of require_full_compilation."""
    lines = reasons(parts.in_the_way) or (
        f"\n  blocks smaller than min_block_size hold "
        f"{parts.compute_nodes - parts.covered_nodes} nodes")
    return "require_full_compilation: these nodes are in no engine" + lines


def reasons(records: list[NativeRecord]) -> str:
    """A line for each, indented; those that are alike once."""
    return "".join(dict.fromkeys(f"\n  {_line(record)}" for record in records))


def not_traced(error: Exception) -> str:
    """The reason of a graph that AOTAutograd gives up on, or that is not for it."""
    text = " ".join(str(error).split())
    if isinstance(error, WholeGraph):
        return text
    if isinstance(error, OUT_OF_MEMORY):
        return f"memory ran out: {text[:300]}"
    return f"PyTorch's AOTAutograd failed: {type(error).__name__}: {text[:300]}"


def no_engine(records: list[NativeRecord]) -> str:
    """The warning about a program that PyTorch runs as a whole."""
    return ("no engine takes a part of this model, so PyTorch runs all of it:"
            f"{reasons(records)}\ntv.dry_run says what would change that")


def failures(parts: Split, failed: dict[str, str]) -> list[NativeRecord]:
    """One record for each block that was not built."""
    return [NativeRecord(name, f"not built: {error} ({parts.compute[name]} nodes)")
            for name, error in failed.items()]
