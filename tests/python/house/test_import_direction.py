"""The Python package's rooms are layers: imports only go down (docs/ARCHITECTURE.md), those inside
of functions too."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "python" / "torch_vulkan"
# Lowest first: private rooms, and public modules between them.
ORDER = [
    "_native",
    "_base",     # files, amounts, dtypes, inputs, settings, checks
    "_torch",    # what PyTorch does of its own, and where its versions differ
    "_device",   # devices, and memory that they share with CUDA
    "_engines",  # engines: run, tuned in the background, extended by users
    "cache", "compilations",
    "_fx",       # captured graphs: prepared, imported, split, called as engines
    "_script",   # TorchScript modules
    "_dry_run",  # what compiling would do
    "_dynamo", "dynamo_backend",  # torch.compile
    "_onnx", "onnx", "onnx_backend",
    "_aot",      # ahead of time: capture, signature, files
    "_quantised",  # modules with packed weights, checkpoints that have them
    "_program",  # programs: compiled or built by hand, saved, refitted, timed, described
    "_accuracy",  # calibration, comparison, validation
    "_generate",  # decoders
    "_cli",      # commands of python -m torch_vulkan
    "_service", "service",  # the compile service, which importing the package leaves alone
    "__init__", "__main__",
]


def imports(root: Path):
    """Each import of the package's own below `root`: place, room or module, what it imports."""
    for path in sorted(root.rglob("*.py")):
        room = "" if path.parent == root else path.parent.name
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path.relative_to(root)}:{node.lineno}" if hasattr(node, "lineno") else ""
            absolute = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module] if isinstance(node, ast.ImportFrom) and not node.level else [])
            if any(name.split(".")[0] == "torch_vulkan" for name in absolute):
                yield place, room or path.stem, "torch_vulkan"
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            inside = node.level == 1 and room
            names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
            for name in [room] if inside else names:
                yield place, room or path.stem, name


def violations(root: Path) -> list[str]:
    """Every upward import below `root`, as "file:line: what"."""
    found = []
    for place, here, name in imports(root):
        if name == "__version__":
            continue  # of the package itself, read when a report is made
        if name == "torch_vulkan":
            found.append(f"{place}: write imports of the package's own from where they are")
        elif here not in ORDER or name not in ORDER:
            found.append(f"{place}: {here if here not in ORDER else name} has no place in ORDER")
        elif ORDER.index(name) > ORDER.index(here):
            found.append(f"{place}: {here} imports {name}")
    return found


def circles(room: Path) -> list[str]:
    """Modules of a room that import each other in a circle, as "a, b"."""
    uses = {}
    for path in room.glob("*.py"):
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
                found.update(names)
        uses[path.stem] = found
    while free := [name for name, used in uses.items() if not used & uses.keys()]:
        for name in free:
            del uses[name]
    return [", ".join(sorted(uses))] if uses else []


def test_imports_only_go_down():
    assert violations(ROOT) == []


def test_every_room_has_modules():
    there = {p.stem for p in ROOT.glob("*.py")} | {p.parent.name for p in ROOT.glob("*/*.py")}
    assert sorted(ORDER) == sorted(there - {"__pycache__"})


@pytest.mark.parametrize("room", sorted(p.name for p in ROOT.glob("_*") if p.is_dir()))
def test_no_room_has_a_circle(room):
    assert circles(ROOT / room) == []


def test_a_circle_is_found(tmp_path):
    for name, text in (("a", "from .b import f"), ("b", "def f():\n    from . import a"),
                       ("c", "from .d import g"), ("d", "from ..settings import Settings")):
        (tmp_path / f"{name}.py").write_text(text)
    assert circles(tmp_path) == ["a, b"]


def test_an_upward_import_is_found(tmp_path):
    (tmp_path / "_fx").mkdir()
    (tmp_path / "_fx" / "importer.py").write_text(
        "from .nodes import a\nfrom .._torch import compat\n\n"
        "def f():\n    from .._dynamo import backend\n")
    (tmp_path / "cache.py").write_text("def f():\n    import torch_vulkan.onnx\n")
    (tmp_path / "_unknown").mkdir()
    (tmp_path / "_unknown" / "a.py").write_text("from .._base.settings import Settings\n")
    assert violations(tmp_path) == ["_fx/importer.py:5: _fx imports _dynamo",
                                    "_unknown/a.py:1: _unknown has no place in ORDER",
                                    "cache.py:2: write imports of the package's own from where "
                                    "they are"]
