"""The dry-run report: what compiling would do, for people and for tools."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from .._base import whole_files
from .._base.settings import Settings
from .._fx.graph_details import GraphDetails
from .._native import C
from .._torch.captures import Capture, GraphBreak
from . import html_page, text_page
from .advice import advice

SCHEMA = Path(__file__).parent / "report.schema.json"
ADVISED = 5  # operators that the report recommends at most
CONSIDERED = 16  # operators that are tried, the most frequent ones


@dataclass
class Graph:
    """One captured graph: what became of it, and where it comes from."""

    kind: str
    details: GraphDetails
    capture: Capture | None = None


@dataclass
class Findings:
    """All that a report is made of.

    Attributes:
        model: what was looked at.
        target: name of the device that the graphs were partitioned for.
        settings: under which.
        graphs: in the order in which they were captured.
        breaks: graph breaks that ended no graph of `graphs`.
        exportable: whether torch.export takes the model; None: not tried.
        export_reason: why not, or why it is not known.
    """

    model: str
    target: str
    settings: Settings
    graphs: list[Graph] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    exportable: bool | None = None
    export_reason: str = ""


class Report:
    """What tv.dry_run returns. `print(report)` is for people, `data` and `to_json` for tools,
    `to_html` a page; docs/dry_run.md describes each."""

    def __init__(self, data: dict):
        self.data = data

    @classmethod
    def of(cls, findings: Findings) -> "Report":
        """Made from what was found."""
        return cls(_data(findings))

    @property
    def coverage(self) -> float:
        """Share of the compute nodes that would run in engines."""
        return self.data["coverage"]

    @property
    def engines(self) -> list[dict]:
        """The engines that would be built, of all graphs."""
        return [engine for graph in self.data["graphs"] for engine in graph["engines"]]

    @property
    def recommended_min_block_size(self) -> int:
        """The largest that covers as much as any, but for 1 % of the nodes."""
        return self.data["recommended_min_block_size"]

    def __str__(self) -> str:
        return text_page.render(self.data)

    def to_text(self, colour: bool | None = None) -> str:
        """The text; `colour`: with terminal colours, None: where standard output takes them."""
        return text_page.render(self.data, text_page.on_terminal() if colour is None else colour)

    def to_json(self, path=None) -> str:
        """JSON text as report.schema.json beside this file says; written to `path` where given."""
        text = json.dumps(self.data, indent=1)
        if path is not None:
            write(path, text)
        return text

    def to_html(self, path=None) -> str:
        """One HTML page that needs no other file; written to `path` where given."""
        page = html_page.render(self.data)
        if path is not None:
            write(path, page)
        return page

    def save(self, path) -> None:
        """As its name says: .html, .txt, else JSON."""
        suffix = Path(path).suffix
        text = (self.to_html() if suffix in (".html", ".htm") else
                str(self) + "\n" if suffix == ".txt" else self.to_json() + "\n")
        write(path, text)


def write(path, text: str) -> None:
    """Replaces a file at once, so that nobody reads half of it."""
    whole_files.write_text(path, text, "dry run")


def _data(findings: Findings) -> dict:
    from .. import __version__

    graphs = [_graph(i, graph) for i, graph in enumerate(findings.graphs)]
    compute = sum(g["compute_nodes"] for g in graphs)
    covered = sum(g["covered_nodes"] for g in graphs)
    sizes = [n for g in findings.graphs for n in g.details.block_sizes]
    sized = sum(g.details.sized_nodes for g in findings.graphs)
    captures = [g.capture for g in findings.graphs if g.capture is not None]
    breaks = [*(c.graph_break for c in captures if c.graph_break), *findings.breaks]
    again = [c.recompilation for c in captures if c.recompilation]
    settings = findings.settings
    shown = {"min_block_size": settings.min_block_size}
    if settings.tunes_in_background:
        shown |= {"background_tuning": True, "optimization_level": settings.optimization_level}
    return {
        "format": "torch_vulkan.dry_run", "version": 2,
        "torch_vulkan": __version__, "torch": torch.__version__,
        "model": findings.model, "target": findings.target,
        "settings": settings.to_json() | shown,
        "compute_nodes": compute, "covered_nodes": covered,
        "coverage": covered / compute if compute else 1.0,
        "engines": sum(len(g["engines"]) for g in graphs),
        "flops": sum(g["flops"] for g in graphs),
        "weight_bytes": sum(e["weight_bytes"] for g in graphs for e in g["engines"]),
        "graph_breaks": [asdict(b) | {"hints": list(b.hints)} for b in dict.fromkeys(breaks)],
        "recompilations": [asdict(r) for r in dict.fromkeys(again)],
        "exportable": findings.exportable, "export_reason": findings.export_reason,
        "operators": _operators(graphs),
        **json.loads(C.block_sizes_report(sizes, sized)),
        "support_first": _support_first(findings.graphs, graphs),
        "graphs": graphs,
    }


def _graph(index: int, graph: Graph) -> dict:
    capture = graph.capture or Capture()
    return {"index": index, "kind": graph.kind, "function": capture.function,
            "source": capture.source, "writes": [], **graph.details.data}


def _operators(graphs: list[dict]) -> list[dict]:
    """Native operators that do work, by reason, the most frequent first."""
    counts: Counter = Counter()
    places: dict = {}
    for graph in graphs:
        for native in graph["native"]:
            if not native["does_work"]:
                continue
            key = native["operator"], native["reason"]
            counts[key] += 1
            place = {"source": native["source"], "module_path": native["module_path"]}
            places.setdefault(key, [])
            if place not in places[key]:
                places[key].append(place)
    return [{"operator": operator, "reason": reason, "advice": advice(reason), "count": count,
             "places": places[operator, reason]}
            for (operator, reason), count in counts.most_common()]


def _support_first(details: list[Graph], graphs: list[dict]) -> list[dict]:
    """The operators whose support would leave the fewest engines, each beside those before it."""
    helps = set().union(*(graph.details.missing for graph in details))
    counts = Counter(native["operator"] for graph in graphs for native in graph["native"]
                     if native["operator"] in helps)
    candidates = [operator for operator, _ in counts.most_common(CONSIDERED)]
    state = (sum(len(g["engines"]) for g in graphs), -sum(g["covered_nodes"] for g in graphs))
    compute = sum(g["compute_nodes"] for g in graphs)
    chosen: list[str] = []
    rows = []

    def outcome(operators) -> tuple[int, int]:
        results = [graph.details.if_supported(operators) for graph in details]
        return sum(engines for engines, _ in results), -sum(covered for _, covered in results)

    while candidates and len(rows) < ADVISED:
        outcomes = {operator: outcome([*chosen, operator]) for operator in candidates}
        # What joins engines first; then what moves the most nodes into engines.
        best = min(candidates, key=lambda operator: outcomes[operator])
        if outcomes[best] >= state:
            best = min(candidates, key=lambda operator: outcomes[operator][1])
            if outcomes[best][1] >= state[1]:
                break
        engines, covered = outcomes[best]
        rows.append({"operator": best, "engines": engines, "engines_before": state[0],
                     "covered_nodes": -covered, "coverage": -covered / compute})
        state = outcomes[best]
        chosen.append(best)
        candidates.remove(best)
    return rows
