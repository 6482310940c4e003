"""The dry-run report as one HTML page that needs no other file and no network."""

from html import escape
from pathlib import Path

from .._base.units import operations, plural, size
from .text_page import place_text, quantised, shape_text, size_notes, sparse, write_text


def render(data: dict) -> str:
    """The page."""
    title = escape(f"{data['model']} on {data['target']}")
    style = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    sections = (_summary(data), _modules(data), _reasons(data), _support(data),
                _breaks(data), _engines(data), _writes(data), _sizes(data))
    return (f"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            f"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
            f"<title>torch_vulkan dry run: {title}</title><style>{style}</style></head><body>"
            f"<main><h1>{title}</h1>{_introduction(data)}{''.join(sections)}"
            f"<footer>torch_vulkan {escape(data['torch_vulkan'])}, torch {escape(data['torch'])}. "
            f"Nothing was built.</footer></main></body></html>\n")


def _introduction(data: dict) -> str:
    device = escape(data["target"])
    if data["target"] == "built-in default":
        device = "the built-in default, a discrete GPU of the middle range,"
    return (f"<p class=\"intro\">What compiling {escape(data['model'])} for {device} would give: "
            "which nodes of its graphs run in engines, and why others are left to PyTorch. A "
            "compute node is an operator that calculates; views are free and not counted.</p>")


def _summary(data: dict) -> str:
    trained = any(graph["kind"] != "inference" for graph in data["graphs"])
    refused = data["exportable"] is False
    exportable = {True: "yes", False: "no", None: "not tried"}[data["exportable"]]
    cards = (("coverage", f"{data['coverage']:.1%}",
              f"{data['covered_nodes']} of {plural(data['compute_nodes'], 'compute node')}"),
             ("engines", str(data["engines"]), plural(len(data["graphs"]), "graph")),
             ("work", operations(data["flops"]), "products, convolutions, attention"),
             ("weights", size(data["weight_bytes"]),
              "in engines; of training graphs, weights are arguments" if trained else "in engines"),
             ("graph breaks", str(len(data["graph_breaks"])),
              plural(len(data["recompilations"]), "recompilation")),
             ("can be exported", exportable, "see below" if refused else data["export_reason"]))
    boxes = "".join(f"<div class=\"card\"><span>{escape(label)}</span><b>{escape(value)}</b>"
                    f"<small>{escape(note)}</small></div>" for label, value, note in cards)
    note = (f"<div class=\"note\"><b>Why it cannot be exported and saved</b>"
            f"<p>{escape(data['export_reason'])}</p></div>" if refused else "")
    return f"<div class=\"cards\">{boxes}</div>{note}{_bar(data['coverage'])}"


def _bar(share: float) -> str:
    level = "good" if share >= 0.99 else "fair" if share >= 0.9 else "poor"
    return (f"<div class=\"bar\" role=\"img\" aria-label=\"{share:.1%}\">"
            f"<div class=\"{level}\" style=\"width:{100 * share:.1f}%\"></div></div>")


def _table(heads: list[str], rows: list[list[str]], numbers: set[int] = frozenset()) -> str:
    """`rows` hold HTML; columns in `numbers` are aligned to the right."""
    def cell(tag, i, text):
        return f"<{tag}{' class=num' if i in numbers else ''}>{text}</{tag}>"

    head = "".join(cell("th", i, escape(h)) for i, h in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", i, c) for i, c in enumerate(row)) + "</tr>"
                   for row in rows)
    return (f"<div class=\"wide\"><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>")


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _reasons(data: dict) -> str:
    operators = data["operators"]
    if not operators:
        said = ("Every node that does work is in an engine." if data["graphs"] else
                "No graph was captured: PyTorch runs all of it.")
        return _section("Left to PyTorch", f"<p>{said}</p>")
    rows = []
    for row in operators:
        places = [escape(place_text(place)) for place in row["places"] if place_text(place)]
        shown = "<br>".join(places[:3])
        if len(places) > 3:
            rest = "<br>".join(places[3:])
            shown += f"<details><summary>{len(places) - 3} more</summary>{rest}</details>"
        rows.append([f"<code>{escape(row['operator'])}</code>", str(row["count"]),
                     f"{escape(row['reason'])}<p class=\"advice\">{escape(row['advice'])}</p>",
                     shown])
    return _section("Left to PyTorch", _table(["operator", "nodes", "reason", "where"], rows, {1}))


def _breaks(data: dict) -> str:
    body = ""
    for broken in data["graph_breaks"]:
        hints = "".join(f"<li>{escape(hint)}</li>" for hint in broken["hints"])
        body += (f"<div class=\"note\"><b>{escape(broken['source'] or 'graph break')}</b> "
                 f"<code>{escape(broken['code'])}</code><p>{escape(broken['reason'])}</p>"
                 f"<ul>{hints}</ul></div>")
    for again in data["recompilations"]:
        body += (f"<div class=\"note\"><b>traced again: {escape(again['function'])}</b> "
                 f"{escape(again['source'])}<p>{escape(again['reason'])}</p></div>")
    return _section("Graph breaks and recompilations", body) if body else ""


class _Module:
    """A node of the tree of modules."""

    def __init__(self):
        self.children: dict[str, _Module] = {}
        self.own: _Module | None = None  # of no child
        self.compute = self.covered = self.flops = 0
        self.engines: set[str] = set()

    def add(self, path: list[str] | None, row: dict, graph: int) -> None:
        self.compute += row["compute_nodes"]
        self.covered += row["covered_nodes"]
        self.flops += row["flops"]
        self.engines |= {f"{graph}:{name}" for name in row["engines"]}
        if path:
            self.children.setdefault(path[0], _Module()).add(path[1:], row, graph)
        elif row["compute_nodes"] and path is not None:
            self.own = self.own or _Module()
            self.own.add(None, row, graph)


def _modules(data: dict) -> str:
    root = _Module()
    for graph in data["graphs"]:
        for row in graph["modules"]:
            root.add([part for part in row["path"].split(".") if part], row, graph["index"])
    if not root.compute:
        return ""
    heads = "".join(f"<span{kind}>{name}</span>" for name, kind in (
        ("module", ""), ("coverage", ""), ("in engines", " class=\"num\""),
        ("FLOPs", " class=\"num\""), ("", " class=\"num\"")))
    return _section("Modules", f"<div class=\"tree\"><div class=\"row heads\">{heads}</div>"
                               f"{_module('model', root, 2)}</div>")


def _module(name: str, module: _Module, open_levels: int) -> str:
    while len(module.children) == 1:  # a chain is one line, as far as it is all of the work
        ((child, inner),) = module.children.items()
        if inner.compute != module.compute:
            break
        name, module = f"{name}.{child}", inner
    share = module.covered / module.compute if module.compute else 1.0
    line = (f"<span class=\"name\">{escape(name)}</span>{_bar(share)}"
            f"<span class=\"num\">{module.covered} of {module.compute}</span>"
            f"<span class=\"num\">{operations(module.flops)}</span>"
            f"<span class=\"num\">{plural(len(module.engines), 'engine')}</span>")
    if not module.children:
        return f"<div class=\"leaf row\">{line}</div>"
    inner = "".join(_module(child, m, open_levels - 1) for child, m in module.children.items())
    if module.own:
        inner += _module("outside of these", module.own, 0)
    shown = " open" if open_levels > 0 else ""
    return (f"<details{shown}><summary class=\"row\">{line}</summary>"
            f"<div class=\"in\">{inner}</div></details>")


def _engines(data: dict) -> str:
    rows = []
    for graph in data["graphs"]:
        for engine in graph["engines"]:
            operators = ", ".join(f"{op} ×{n}" for op, n in engine["operators"].items())
            values = "<br>".join(f"<code>{escape(shape_text(v))}</code>" for v in engine["inputs"])
            made = "<br>".join(f"<code>{escape(shape_text(v))}</code>" for v in engine["outputs"])
            outcomes = quantised(engine) + sparse(engine)
            rows.append([
                f"{escape(engine['name'])}<br><small>graph {graph['index']}, "
                f"{escape(graph['kind'])}</small>",
                str(engine["compute_nodes"]), operations(engine["flops"]),
                size(engine["weight_bytes"]), _folded(values), _folded(made),
                f"<details><summary>{plural(len(engine['operators']), 'operator')}</summary>"
                f"{escape(operators)}</details>" + "".join(
                    f"<br><small>{escape(text)}</small>" for text in outcomes)])
    heads = ["engine", "nodes", "FLOPs", "weights", "takes", "makes", "operators"]
    body = _table(heads, rows, {1, 2, 3}) if rows else "<p>None.</p>"
    return _section("Engines", body)


def _writes(data: dict) -> str:
    rows = [[str(graph["index"]), escape(write_text(write))]
            for graph in data["graphs"] for write in graph["writes"]]
    return _section("Inputs that are written", _table(["graph", "what becomes of them"], rows)
                    ) if rows else ""


def _folded(lines: str) -> str:
    count = lines.count("<br>") + 1
    if count <= 4:
        return lines
    return f"<details><summary>{plural(count, 'tensor')}</summary>{lines}</details>"


def _sizes(data: dict) -> str:
    rows = [[str(row["min_block_size"]), str(row["engines"]), f"{row['coverage']:.1%}",
             _bar(row["coverage"]), note]
            for row, note in zip(data["min_block_size"], size_notes(data))]
    heads = ["min_block_size", "engines", "coverage", "", ""]
    return _section("Effect of min_block_size", _table(heads, rows, {0, 1, 2}))


def _support(data: dict) -> str:
    if not data["support_first"]:
        return ""
    rows = [[f"<code>{escape(r['operator'])}</code>", f"{r['engines_before']} → {r['engines']}",
             f"{r['coverage']:.1%}"] for r in data["support_first"]]
    return _section("Operators whose support would help most, one after the other",
                    _table(["operator", "engines", "coverage"], rows, {2}))
