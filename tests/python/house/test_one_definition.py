"""No two types of the project have one name: the linker would take either's functions for both, and
no compiler says so."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMESPACE = re.compile(r"(inline )?namespace(?: ([\w:]+))? \{")
TYPE = re.compile(r"(?:struct|class) (\w+)(?: final)?(?: : .*)? \{")


def defined_twice(root: Path) -> dict[str, list[str]]:
    """Types outside of anonymous namespaces and of other types, and the files that define each."""
    files = defaultdict(set)
    for top in ("runtime", "csrc", "converters", "python", "integrations"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp") or "torch_vulkan" in path.parts:
                continue
            inside = []
            for line in path.read_text().splitlines():
                if opened := NAMESPACE.match(line):
                    inside.append(opened[2])
                elif line.startswith("}  // namespace") and inside:
                    inside.pop()
                elif (found := TYPE.match(line)) and None not in inside:
                    files["::".join([*inside, found[1]])].add(str(path.relative_to(root)))
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


def test_each_type_is_defined_once():
    assert defined_twice(ROOT) == {}


def test_one_that_is_defined_twice_is_found(tmp_path):
    for folder in ("csrc", "integrations"):
        (tmp_path / folder).mkdir()
    for file, text in (("csrc/a.h", "struct Same {\n};\nstruct Other {\n};"),
                       ("integrations/b.h", "class Same : public Base {\n};"),
                       ("csrc/c.cpp", "namespace {\nstruct Other {\n};\n}  // namespace")):
        whole = f"namespace tv {{\n{text}\n}}  // namespace tv\n"
        (tmp_path / file).write_text(whole)
    assert defined_twice(tmp_path) == {"tv::Same": ["csrc/a.h", "integrations/b.h"]}
