#!/usr/bin/env python
"""Writes what is made of csrc/settings_table.h and kept as text: the tables of docs/settings.md,
the fields of Settings in python/torch_vulkan/settings.py, and vkexec's flags in docs/vkexec.md.
Build first, then `PYTHONPATH=python python scripts/settings_page.py`."""

import re
import subprocess
from pathlib import Path

from torch_vulkan._base.setting_checks import KINDS, ROWS, Row

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "settings.md"
SOURCE = ROOT / "python" / "torch_vulkan" / "settings.py"
COMMAND = ROOT / "docs" / "vkexec.md"


def values(row: Row) -> str:
    """"int, 0 to 5"."""
    text = KINDS[row.kind].annotation
    if row.kind == "Integer":
        text += f", {row.low} to {row.high}"
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
    return f"Engines in the cache are found by {', '.join(names[:-1])} and {names[-1]}."


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


def flags(text: str) -> str:
    """The page of vkexec with its flags as --help prints them."""
    vkexec = ROOT / "python" / "torch_vulkan" / "bin" / "vkexec"
    for mark, command in (("flags", []), ("compare-flags", ["compare"])):
        said = subprocess.run([vkexec, *command, "--help"], capture_output=True, text=True,
                              check=True).stdout
        listing = re.search(r"^(?:Model|Compare):\n.*?\n(?=\n  --help)", said, re.M | re.S)[0]
        text = re.sub(rf"(<!-- {mark} -->\n```text\n).*?```",
                      lambda match, listing=listing: match[1] + listing + "```", text, flags=re.S)
    return text


WRITTEN = ((PAGE, page), (SOURCE, fields), (COMMAND, flags))


def main() -> None:
    for path, made in WRITTEN:
        path.write_text(made(path.read_text()))


if __name__ == "__main__":
    main()
