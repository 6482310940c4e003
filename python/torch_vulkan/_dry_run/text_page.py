"""The dry-run report as text."""

import os
import sys
import textwrap

from .._base.units import operations, plural, size

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
PLACES = 3  # of one reason that are listed
OPERATORS = 6  # of one engine that are listed


def on_terminal() -> bool:
    """Whether standard output takes colours."""
    return (sys.stdout.isatty() and "NO_COLOR" not in os.environ
            and os.environ.get("TERM") != "dumb")


def render(data: dict, colour: bool = False) -> str:
    """The whole report."""
    return "\n".join(_Text(colour).lines(data))


def place_text(place: dict) -> str:
    """"model.py:42, layer1.0"."""
    return ", ".join(part for part in (place["source"], place["module_path"]) if part)


def shape_text(value: dict) -> str:
    """"x float32[1, 3, batch]"."""
    return f"{value['name']} {value['dtype']}[{', '.join(map(str, value['shape']))}]"


def _in_force(data: dict) -> int:
    """The row of the table of sizes that the report's own setting belongs to."""
    now = data["settings"]["min_block_size"]
    return max((row["min_block_size"] for row in data["min_block_size"]
                if row["min_block_size"] <= now), default=1)


def size_notes(data: dict) -> list[str]:
    """What is said of each min_block_size in the table of them: "recommended"."""
    now, notes = data["settings"]["min_block_size"], []
    for row in data["min_block_size"]:
        at = row["min_block_size"]
        setting = "this report's setting" if at == now else f"the same as this report's, {now}"
        said = (("recommended", at == data["recommended_min_block_size"]),
                (setting, at == _in_force(data)))
        notes.append("; ".join(text for text, true in said if true))
    return notes


def quantised(engine: dict) -> list[str]:
    """What became of an engine's quantised tensors, a line for each outcome: "2 quantised tensors
    read packed by 1 product: layer.query, layer.key"."""
    return _by_outcome("quantised tensor", engine["quantised"])


def sparse(engine: dict) -> list[str]:
    """The same of the weights of products, where sparse_weights is set: "2 weights read as 2:4
    sparse: layer.query, layer.key"."""
    return _by_outcome("weight", engine["sparse"])


def write_text(write: dict) -> str:
    """What becomes of an input that the graph writes to: "cache float32[8, 5]: written in place by
    engine_0"."""
    value = shape_text(write | {"name": write["input"]})
    if write["in_place"]:
        return f"{value}: written in place by {write['engine'] or 'PyTorch'}"
    copied = "copied" if write["bytes"] is None else f"copied, {size(write['bytes'])} a call"
    return f"{value}: {copied} by {write['engine'] or 'PyTorch'}: {write['reason']}"


def _by_outcome(kind: str, tensors: list[dict]) -> list[str]:
    by_outcome: dict[str, list[str]] = {}
    for tensor in tensors:
        by_outcome.setdefault(tensor["outcome"], []).append(
            tensor["module_path"] or tensor["tensor"])
    return [f"{plural(len(names), kind)} {outcome}: {', '.join(names[:PLACES])}"
            + (f" and {len(names) - PLACES} more" if len(names) > PLACES else "")
            for outcome, names in by_outcome.items()]


class _Text:
    def __init__(self, colour: bool):
        self._colour = colour

    def _in(self, colour: str, text: str) -> str:
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self._colour else text

    def _share(self, share: float) -> str:
        colour = "green" if share >= 0.99 else "yellow" if share >= 0.9 else "red"
        return self._in(colour, f"{share:.1%}")

    def lines(self, data: dict) -> list[str]:
        of_files = any(graph["kind"] == "onnx" for graph in data["graphs"])
        self._rest = "ONNX Runtime" if of_files else "PyTorch"
        lines = [self._in("bold", f"torch_vulkan dry run: {data['model']} on {data['target']}")]
        lines.append(
            f"  {self._share(data['coverage'])} of {plural(data['compute_nodes'], 'compute node')} "
            f"in {plural(data['engines'], 'engine')}, {plural(len(data['graphs']), 'graph')}, "
            f"{operations(data['flops'])}, {size(data['weight_bytes'])} of weights")
        if data["settings"].get("background_tuning") and data["engines"]:
            lines += _wrapped(
                "first calls: engines of optimization_level 0, until those of level "
                f"{data['settings']['optimization_level']} are tuned in the background", "  ")
        for graph in data["graphs"]:
            lines += self._graph(graph)
        lines += self._native(data["operators"]) if data["graphs"] else [
            "", "No graph was captured: PyTorch runs all of it."]
        lines += self._breaks(data)
        lines += self._advice(data)
        return lines

    def _graph(self, graph: dict) -> list[str]:
        where = " ".join(part for part in (graph["function"], graph["source"]) if part)
        lines = ["", self._in("bold", f"graph {graph['index']} ({graph['kind']}"
                              + (f", {where}" if where else "") + ")")
                 + (f": {self._share(graph['coverage'])} of {graph['compute_nodes']} in "
                    + plural(len(graph["engines"]), "engine") if graph["compute_nodes"]
                    else ": nothing to compute")]
        for engine in graph["engines"]:
            operators = list(engine["operators"].items())
            rest = len(operators) - OPERATORS
            named = [f"{op} x{count}" for op, count in operators[:OPERATORS]]
            more = [f"{plural(rest, 'other operator')}"] if rest > 0 else []
            lines.append(f"  {self._in('cyan', engine['name'])}: "
                         f"{plural(engine['compute_nodes'], 'compute node')}, "
                         f"{operations(engine['flops'])}, "
                         f"{size(engine['weight_bytes'])} of weights")
            lines.append("    " + ", ".join(named + more))
            lines.append("    takes " + _values(engine["inputs"])
                         + "; makes " + _values(engine["outputs"]))
            lines += [line for text in quantised(engine) + sparse(engine)
                      for line in _wrapped(text, "    ")]
        lines += [line for write in graph["writes"] for line in _wrapped(write_text(write), "  ")]
        return lines

    def _native(self, operators: list[dict]) -> list[str]:
        if not operators:
            return ["", "Every node that does work is in an engine."]
        lines = ["", self._in("bold", f"Left to {self._rest}")]
        for row in operators:
            lines += _wrapped(f"{self._in('yellow', row['operator'])} x{row['count']}: "
                              f"{row['reason']}", "  ")
            if row["advice"]:
                lines += _wrapped(row["advice"], "      ")
            places = [place_text(place) for place in row["places"] if place_text(place)]
            for place in places[:PLACES]:
                lines.append(self._in("dim", f"      at {place}"))
            if len(places) > PLACES:
                lines.append(self._in("dim", f"      and {len(places) - PLACES} places more"))
        return lines

    def _breaks(self, data: dict) -> list[str]:
        lines = []
        if data["graph_breaks"]:
            lines += ["", self._in("bold", "Graph breaks")]
        for broken in data["graph_breaks"]:
            lines += _wrapped(f"{broken['source'] or 'somewhere'}: {broken['reason']}", "  ")
            if broken["code"]:
                lines.append(self._in("dim", f"      {broken['code']}"))
            for hint in broken["hints"]:
                lines += _wrapped(hint, "      ")
        if data["recompilations"]:
            lines += ["", self._in("bold", "Recompilations")]
        for again in data["recompilations"]:
            lines += _wrapped(f"{again['function']} ({again['source']}): {again['reason']}", "  ")
        return lines

    def _advice(self, data: dict) -> list[str]:
        word = {True: "yes", False: "no", None: "not tried"}[data["exportable"]]
        reason = f": {data['export_reason']}" if data["export_reason"] else ""
        lines = ["", *_wrapped(f"{self._in('bold', 'Can be exported and saved')}: {word}{reason}",
                               "")]
        lines += ["", self._in("bold", "min_block_size  engines  coverage")]
        now, best = data["settings"]["min_block_size"], data["recommended_min_block_size"]
        in_force = _in_force(data)
        for row, note in zip(data["min_block_size"], size_notes(data)):
            lines.append(f"{row['min_block_size']:14}  {row['engines']:7}  {row['coverage']:8.1%}"
                         + (f"  {note}" if note else ""))
        lines.append(f"recommended min_block_size: {best}"
                     + (f" ({now} does the same)" if best == in_force != now else ""))
        if data["support_first"]:
            lines += ["", self._in("bold", "Operators whose support would help most, one after the "
                                           "other")]
        for row in data["support_first"]:
            lines.append(f"  {row['operator']}: {row['engines_before']} -> "
                         f"{plural(row['engines'], 'engine')}, {row['coverage']:.1%} covered")
        return lines


def _values(values: list[dict], most: int = 4) -> str:
    named = [shape_text(value) for value in values[:most]]
    more = [f"{len(values) - most} more"] if len(values) > most else []
    return ", ".join(named + more) or "nothing"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent + "    ",
                         break_long_words=False, break_on_hyphens=False)
