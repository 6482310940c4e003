"""Each folder is a layer; includes only go down (docs/ARCHITECTURE.md)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ["runtime", "csrc", "converters", "python"]
SUFFIXES = {".h", ".cpp", ".hpp", ".cc", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Below converters/ each folder knows kit/ and itself; what else one builds on stands here, and not
# the other way round. A kernel's includes and the kernels that a converter names count as well.
BUILDS_ON = {"convolution": {"matmul"}, "resampling": {"sorting"}}
KERNELS = {".comp", ".glsl"}
KERNEL_NAME = re.compile(r'\bkernel = "(\w+)"')
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


def strangers(root: Path) -> list[str]:
    """Every use of another family's file below root/converters, as "file: what"."""
    files = [p for p in sorted((root / "converters").rglob("*")) if p.suffix in SUFFIXES | KERNELS]
    room = {p.name: p.relative_to(root / "converters").parts[0] for p in files}
    found = []
    for path in files:
        text, home = path.read_text(), room[path.name]
        if path.suffix in KERNELS:
            used = [m[2] for m in INCLUDE.finditer(text)]
        else:
            used = [m[2].split("/")[-1] for m in INCLUDE.finditer(text)
                    if m[2].startswith("converters/")]
            used += [name + ".comp" for name in KERNEL_NAME.findall(text)]
        allowed = {"kit", home} | BUILDS_ON.get(home, set())
        found += [f"{path.relative_to(root)}: {name} of {room[name]}/" for name in used
                  if name in room and room[name] not in allowed]
    return found


def test_families_of_converters_know_the_kit_alone():
    assert strangers(ROOT) == []
    rooms = {p.name for p in (ROOT / "converters").iterdir() if p.is_dir()}
    assert set(BUILDS_ON) | set().union(*BUILDS_ON.values()) <= rooms
    assert not any(a in BUILDS_ON.get(b, ()) for a, known in BUILDS_ON.items() for b in known)


def test_a_file_of_converters_is_found_by_its_name():
    """Kernels are looked up by it; and a header's name should say which one is meant."""
    names = [p.name for p in (ROOT / "converters").rglob("*") if p.suffix in SUFFIXES | KERNELS]
    assert len(names) == len(set(names))
    assert len(names) > 200


@pytest.mark.parametrize(
    "file, line",
    [
        ("pooling/a.cpp", '#include "converters/sorting/b.h"'),
        ("kit/a.h", '#include "converters/sorting/b.h"'),
        ("sorting/b.cpp", '#include "converters/resampling/c.h"'),
        ("pooling/a.comp", '#include "d.glsl"'),
        ("pooling/a.cpp", 'Step step{.kernel = "e"};'),
    ],
)
def test_a_use_of_another_family_is_found(tmp_path, file, line):
    for other in ("sorting/b.h", "resampling/c.h", "sorting/d.glsl", "sorting/e.comp", "kit/f.h"):
        path = tmp_path / "converters" / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    path = tmp_path / "converters" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#include "converters/kit/f.h"\n{line}\n')
    assert len(strangers(tmp_path)) == 1 and strangers(tmp_path)[0].startswith(f"converters/{file}")


def test_includes_only_go_down():
    assert violations(ROOT) == []


def test_every_layer_has_sources():
    for layer in LAYERS:
        assert any(p.suffix in SUFFIXES for p in (ROOT / layer).rglob("*")), layer


@pytest.mark.parametrize(
    "file, line",
    [
        ("runtime/a.cpp", '#include "csrc/compile/compile.h"'),
        ("runtime/a.h", "#include <glslang/Public/ShaderLang.h>"),
        ("csrc/deep/a.cpp", '#  include "converters/kit/rows.h"'),
        ("csrc/a.cpp", "#include <torch/torch.h>"),
        ("converters/a.cpp", '#include "python/bindings/a.h"'),
        ("python/bindings/a.cpp", '#include "converters/a.h"'),
        ("csrc/a.h", '#include "../python/a.h"'),
        ("runtime/a.cpp", '#include "tests/cpp/kit/sample_engine.h"'),
    ],
)
def test_an_upward_include_is_found(tmp_path, file, line):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"// text\n{line}\n")
    assert len(violations(tmp_path)) == 1 and violations(tmp_path)[0].startswith(f"{file}:2:")
