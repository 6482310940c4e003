"""Each folder is a layer; includes only go down (docs/ARCHITECTURE.md)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ["runtime", "csrc", "converters", "python"]
SUFFIXES = {".h", ".cpp", ".hpp", ".cc", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Libraries that a layer, and with it all above, may know.
FROM_LAYER = {"torch/": "python", "ATen/": "python", "c10/": "python", "pybind11/": "python",
              "Python.h": "python",
              "glslang/": "csrc", "SPIRV/": "csrc"}


def violations(root: Path) -> list[str]:
    """Every upward include below `root`, as "file:line: why"."""
    found = []
    for level, layer in enumerate(LAYERS):
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            text = path.read_text()
            for match in INCLUDE.finditer(text):
                included = match[2]
                where = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start(2)) + 1}"
                top = included.split("/")[0]
                if top in LAYERS[level + 1 :] or top == "tests":
                    found.append(f"{where}: {layer}/ includes {included}")
                elif top == "converters" and layer != "converters":
                    found.append(f"{where}: converters register themselves; nothing includes them")
                elif included.startswith(".."):
                    found.append(f"{where}: write the path from the root, not {included}")
                for library, lowest in FROM_LAYER.items():
                    if included.startswith(library) and LAYERS.index(lowest) > level:
                        found.append(
                            f"{where}: {layer}/ includes {included}, known from {lowest}/ up")
    return found


def test_includes_only_go_down():
    assert violations(ROOT) == []


def test_every_layer_has_sources():
    for layer in LAYERS:
        assert any(p.suffix in SUFFIXES for p in (ROOT / layer).rglob("*")), layer


@pytest.mark.parametrize(
    "file, line",
    [
        ("runtime/a.cpp", '#include "csrc/compile.h"'),
        ("runtime/a.h", "#include <glslang/Public/ShaderLang.h>"),
        ("csrc/deep/a.cpp", '#  include "converters/kit/rows.h"'),
        ("csrc/a.cpp", "#include <torch/torch.h>"),
        ("converters/a.cpp", '#include "python/bindings/a.h"'),
        ("python/bindings/a.cpp", '#include "converters/a.h"'),
        ("csrc/a.h", '#include "../python/a.h"'),
        ("runtime/a.cpp", '#include "tests/cpp/sample_engine.h"'),
    ],
)
def test_an_upward_include_is_found(tmp_path, file, line):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"// text\n{line}\n")
    assert len(violations(tmp_path)) == 1 and violations(tmp_path)[0].startswith(f"{file}:2:")
