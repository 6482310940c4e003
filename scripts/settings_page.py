#!/usr/bin/env python
"""Writes what is made of csrc/settings_table.h and kept as text: the tables of docs/settings.md,
the fields of Settings in python/torch_vulkan/_base/settings.py, the compile service's copies of
rows, and vkexec's flags in docs/vkexec.md and its man page.
Build first, then `PYTHONPATH=python python scripts/settings_page.py`."""

import re
import subprocess
import textwrap
from pathlib import Path

from torch_vulkan._base.setting_checks import KINDS, ROWS, Row

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "settings.md"
SOURCE = ROOT / "python" / "torch_vulkan" / "_base" / "settings.py"
SERVICE = ROOT / "python/torch_vulkan/_service/messages/build_settings.py"
COMMAND = ROOT / "docs" / "vkexec.md"
MANUAL = ROOT / "docs" / "man" / "vkexec.1"


def values(row: Row) -> str:
    """"int, 0 to 5"; "int, 0 up"."""
    text = KINDS[row.kind].annotation
    if row.kind in ("Integer", "Bytes"):
        text += ", " + row._replace(unit="").range.removeprefix("from ")
    return f"`{text}`".replace("|", "\\|")


def default(row: Row) -> str:
    return row.shown or f"`{row.default!r}`"


def table(section: str) -> str:
    lines = ["| setting | values | default | vkexec | meaning |", "|---|---|---|---|---|"]
    for row in ROWS.values():
        if row.section == section:
            flags = ", ".join(f"`{flag}`" for flag in row.flags)
            cells = f"`{row.name}`", values(row), default(row), flags, row.help
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def key() -> str:
    names = [f"`{row.name}`" for row in ROWS.values() if row.in_key]
    text = f"The key of a cached engine has {', '.join(names[:-1])} and {names[-1]}."
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def page(text: str) -> str:
    """The page with its tables as they are now."""
    def now(match: re.Match) -> str:
        made = key() if match[1] == "key" else table(match[1].removeprefix("table: "))
        return f"<!-- {match[1]} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- (table: .*?|key) -->\n.*?<!-- end -->", now, text, flags=re.S)


def fields(text: str) -> str:
    """The source with the fields of Settings as they are now."""
    lines = []
    for row in ROWS.values():
        value = repr(row.default)
        if row.variable:
            value = f'field(default_factory=lambda: of_environment("{row.name}"))'
        lines.append(f"    {row.name}: {KINDS[row.kind].annotation} = {value}\n")
    return re.sub(r"(    # --- fields ---\n).*?(    # --- end of fields ---\n)",
                  lambda match: match[1] + "".join(lines) + match[2], text, flags=re.S)


def service_rows(text: str) -> str:
    """The source with the rows that it names as they are now."""
    def now(match: re.Match) -> str:
        row = ROWS[match[1]]
        values = [[]] if row.kind == "Precisions" else [row.default, row.low]
        if row.kind == "Integer" and row.high != 2**63 - 1:
            values.append(row.high)
        return f'    "{row.name}": Setting({", ".join(map(repr, values))}),\n'

    rows = re.search(r"    # --- rows ---\n(.*?)    # --- end of rows ---\n", text, re.S)[1]
    return text.replace(rows, re.sub(r' +"(\w+)": .*\n', now, rows))


def said(*command: str) -> tuple[str, str]:
    """The flags of vkexec's --help, and its examples."""
    vkexec = ROOT / "python" / "torch_vulkan" / "bin" / "vkexec"
    text = subprocess.run([vkexec, *command, "--help"], capture_output=True, text=True,
                          check=True).stdout
    return re.search(r"^(\w+:\n  -.*?\n)\nExamples?:\n(.*?)\n\nExit", text, re.M | re.S).groups()


def flags(text: str) -> str:
    """The page of vkexec with its flags as --help prints them."""
    for mark, command in (("flags", ()), ("compare-flags", ("compare",)),
                          ("precision-flags", ("debug", "precision")),
                          ("reduce-flags", ("debug", "reduce")),
                          ("generate-flags", ("generate",))):
        listing = said(*command)[0].split("\nOther:")[0]
        text = re.sub(rf"(<!-- {mark} -->\n```text\n).*?```",
                      lambda match, listing=listing: match[1] + listing + "```", text, flags=re.S)
    return text


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "\\&...")
    return re.sub(r"^([.'])", r"\\&\1", text)


def manual_flag(name: str) -> str:
    """"-h, --help" and "--onnx=FILE" as a man page has them."""
    name, _, value = name.partition("=")
    names = ", ".join(f"\\fB{roff(one)}\\fR" for one in name.split(", "))
    return names + (f"=\\fI{roff(value.lower())}\\fR" if value else "")


def manual_flags(listing: str) -> str:
    listing = re.sub(r"\n {32}", " ", listing)
    lines = []
    for line in listing.splitlines():
        if group := re.fullmatch(r"(\w+):", line):
            lines.append(f".SS {group[1]}")
        elif flag := re.fullmatch(r"  (-.*?) {2,}(.*)|  (-\S+(?:, -\S+)*) (.*)", line):
            name, text = flag[1] or flag[3], flag[2] or flag[4]
            lines += [".TP", manual_flag(name), roff(text)]
    return "\n".join(lines)


def manual_examples(text: str) -> str:
    lines, code = [], False
    for line in text.splitlines():
        if line.startswith("    ") != code:
            code = not code
            lines += [".PP", ".nf", ".RS"] if code else [".RE", ".fi"]
        if not code:
            lines.append(".PP")
        lines.append(roff(line[4:] if code else line.strip()))
    return "\n".join([*lines, ".RE", ".fi"])


def manual(text: str) -> str:
    """The man page with its flags and examples as --help prints them."""
    listing, examples = said()
    for mark, made in (("flags", manual_flags(listing)), ("examples", manual_examples(examples)),
                       ("compare", manual_flags(said("compare")[0])),
                       ("precision", manual_flags(said("debug", "precision")[0])),
                       ("reduce", manual_flags(said("debug", "reduce")[0])),
                       ("generate", manual_flags(said("generate")[0]))):
        begin, end = f'.\\" {mark}: scripts/settings_page.py writes them\n', '.\\" end\n'
        before, after = text.split(begin)
        text = before + begin + made + "\n" + end + after.split(end, 1)[1]
    return text


WRITTEN = ((PAGE, page), (SOURCE, fields), (SERVICE, service_rows), (COMMAND, flags),
           (MANUAL, manual))


def main() -> None:
    for path, made in WRITTEN:
        path.write_text(made(path.read_text()))


if __name__ == "__main__":
    main()
