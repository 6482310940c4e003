"""What the partition left to PyTorch, for people and for tools."""

import json
from collections import Counter
from pathlib import Path

from .compilations import NativeRecord
from .settings import Settings
from .splitting import Split


def _line(record: NativeRecord) -> str:
    where = " ".join(part for part in (record.source, record.module_path) if part)
    return f"{record.op}: {record.reason}" + (f" ({where})" if where else "")


def in_the_way(parts: Split) -> str:
    """The message of require_full_compilation."""
    lines = [_line(record) for record in parts.in_the_way]
    if not lines:
        lines = [f"blocks smaller than min_block_size hold "
                 f"{parts.compute_nodes - parts.covered_nodes} nodes"]
    return ("require_full_compilation: these nodes are in no engine\n  "
            + "\n  ".join(dict.fromkeys(lines)))


def failures(parts: Split, failed: dict[str, str]) -> list[NativeRecord]:
    """One record for each block that was not built."""
    return [NativeRecord(name, f"not built: {error} ({parts.compute[name]} nodes)")
            for name, error in failed.items()]


def as_dict(parts: Split, kind: str) -> dict:
    """The partition as JSON-able data."""
    details = parts.details
    return {
        "kind": kind,
        "nodes": details["nodes"],
        "compute_nodes": parts.compute_nodes,
        "covered_nodes": parts.covered_nodes,
        "coverage": parts.covered_nodes / parts.compute_nodes if parts.compute_nodes else 1.0,
        "engines": [{"name": name, **engine, "compute_nodes": parts.compute[name]}
                    for name, engine in zip(parts.compute, details["engines"], strict=True)],
        "native": [record.__dict__ for record in parts.native],
        "min_block_size": details["min_block_size"],
        "recommended_min_block_size": details["recommended_min_block_size"],
    }


def as_text(parts: Split, kind: str) -> str:
    """The same for people."""
    data = as_dict(parts, kind)
    lines = [f"torch_vulkan: {kind} graph, {parts.covered_nodes} of {parts.compute_nodes} compute "
             f"nodes ({data['coverage']:.1%}) in {len(parts.engines)} engine(s)"]
    for engine in data["engines"]:
        operators = sorted(engine["operators"].items(), key=lambda item: -item[1])
        lines.append(f"  {engine['name']}: {engine['compute_nodes']} compute nodes, "
                     f"{engine['weight_bytes'] / 2**20:.1f} MiB of weights: "
                     + ", ".join(f"{op} x{count}" for op, count in operators))
    counts = Counter(_line(record) for record in parts.native)
    lines += [f"  native x{count}: {line}" for line, count in counts.most_common()]
    lines += [f"  min_block_size {row['min_block_size']}: {row['engines']} engine(s), "
              f"{row['coverage']:.1%}" for row in data["min_block_size"]]
    lines.append(f"  recommended min_block_size: {data['recommended_min_block_size']}")
    return "\n".join(lines)


def write(parts: Split, kind: str, settings: Settings) -> None:
    """Prints the report, or writes it where `dryrun` names a file: text for a name that ends in
    .txt, else JSON, one line a graph. Graphs of one run are appended."""
    if not isinstance(settings.dryrun, str):
        print(as_text(parts, kind), flush=True)
        return
    path = Path(settings.dryrun)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = as_text(parts, kind) if path.suffix == ".txt" else json.dumps(as_dict(parts, kind))
    with path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")
