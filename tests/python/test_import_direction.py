"""The Python package's rooms are layers: imports only go down (docs/ARCHITECTURE.md), those inside
of functions too."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "python" / "torch_vulkan"
# Lowest first: private rooms, and public modules between them.
ORDER = [
    "_native", "errors", "inputs", "background", "compilations",
    "_base",     # files, amounts, checks
    "device_list", "cuda_memory", "settings", "engine", "cache", "custom",
    "_torch",    # what PyTorch does of its own, and where its versions differ
    "fake",
    "_fx",       # captured graphs: prepared, imported, split, called as engines
    "_script",   # TorchScript modules
    "_dry_run",  # what compiling would do
    "backend",   # torch.compile
    "dynamo_backend", "registration", "observing",
    "_onnx", "onnx", "onnx_backend",
    "_aot",      # ahead of time: capture, signature, files
    "_quantised",  # modules with packed weights, checkpoints that have them
    "program", "graph_export", "graph_import", "dry_run", "quantisation", "calibration",
    "comparison", "saving", "refit",
    "builder", "profiling", "generation", "decoder_saving",
    "validation", "config",
    "_cli",      # commands of python -m torch_vulkan
    "service",   # the compile service, which importing the package leaves alone
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


def test_imports_only_go_down():
    assert violations(ROOT) == []


def test_every_room_has_modules():
    there = {p.stem for p in ROOT.glob("*.py")} | {p.parent.name for p in ROOT.glob("*/*.py")}
    assert sorted(ORDER) == sorted(there - {"__pycache__"})


def test_an_upward_import_is_found(tmp_path):
    (tmp_path / "_fx").mkdir()
    (tmp_path / "_fx" / "importer.py").write_text(
        "from .nodes import a\nfrom .._torch import compat\n\n"
        "def f():\n    from .. import backend\n")
    (tmp_path / "settings.py").write_text("def f():\n    import torch_vulkan.backend\n")
    (tmp_path / "_unknown").mkdir()
    (tmp_path / "_unknown" / "a.py").write_text("from ..settings import Settings\n")
    assert violations(tmp_path) == ["_fx/importer.py:5: _fx imports backend",
                                    "_unknown/a.py:1: _unknown has no place in ORDER",
                                    "settings.py:2: write imports of the package's own from where "
                                    "they are"]
