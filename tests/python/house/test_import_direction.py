"""The Python package's rooms are layers: imports only go down (docs/ARCHITECTURE.md), those inside
of functions too."""

import ast
import sys
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
# The same for what is in _service/.
SERVICE_ORDER = [
    "errors",
    "files",     # what models are sent as
    "storage",   # the database, files by their digest, keys, signatures
    "messages",  # what is sent and answered
    "running",   # where tasks run, and what they do
    "client",    # the users' side
    "jobs",      # jobs, their artefacts, webhooks
    "rate", "traces", "observe", "parts",
    "http",      # routes, and the page
    "assembly", "server",
    "commands",  # tv-compile
    "__init__",
]
ORDERS = [(ROOT, ORDER), (ROOT / "_service", SERVICE_ORDER)]
# Run by their paths, with the standard library alone.
BY_PATH = ["running/launch.py", "running/confine.py", "files/bundle.py"]


def imports(root: Path):
    """Each import of the package's own below `root`: place, room or module, what it imports. What
    lies around `root` is left out."""
    for path in sorted(root.rglob("*.py")):
        folder = path.relative_to(root).parent.parts
        here = folder[0] if folder else path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path.relative_to(root)}:{node.lineno}" if hasattr(node, "lineno") else ""
            if any(name.split(".")[0] == "torch_vulkan" for name in absolute(node)):
                yield place, here, "torch_vulkan"
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            kept = len(folder) + 1 - node.level
            if kept >= 0:
                below = [*folder[:kept], *(node.module.split(".") if node.module else ())]
                for name in below[:1] or [alias.name for alias in node.names]:
                    yield place, here, name


def absolute(node) -> list[str]:
    """The modules that a node names in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []


def violations(root: Path, order: list[str]) -> list[str]:
    """Every upward import below `root`, as "file:line: what"."""
    found = []
    for place, here, name in imports(root):
        if name == "__version__":
            continue  # of the package itself, read when a report is made
        if name == "torch_vulkan":
            found.append(f"{place}: write imports of the package's own from where they are")
        elif here not in order or name not in order:
            unknown = here if here not in order else name
            found.append(f"{place}: {unknown} has no place in the order")
        elif order.index(name) > order.index(here):
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


@pytest.mark.parametrize("root, order", ORDERS, ids=["package", "service"])
def test_imports_only_go_down(root, order):
    assert violations(root, order) == []


@pytest.mark.parametrize("root, order", ORDERS, ids=["package", "service"])
def test_every_room_has_modules(root, order):
    there = {p.stem for p in root.glob("*.py")} | {p.parent.name for p in root.glob("*/*.py")}
    assert sorted(order) == sorted(there - {"__pycache__"})


@pytest.mark.parametrize("room", sorted(
    p.relative_to(ROOT).as_posix() for pattern in ("_*", "_service/*")
    for p in ROOT.glob(pattern) if p.is_dir() and p.name != "__pycache__"))
def test_no_room_has_a_circle(room):
    assert circles(ROOT / room) == []


def test_what_needs_the_standard_library_alone():
    """The service's files/, and what is run by its path, which does without the package, too."""
    service = ROOT / "_service"
    for path in [*service.glob("files/*.py"), *(service / name for name in BY_PATH)]:
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        used = {name.split(".")[0] for node in nodes for name in absolute(node)}
        assert used <= sys.stdlib_module_names, path
        if path.relative_to(service).as_posix() in BY_PATH:
            assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), path
    assert {name for _, here, name in imports(service) if here == "files"} == {"files"}


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
    assert violations(tmp_path, ORDER) == [
        "_fx/importer.py:5: _fx imports _dynamo",
        "_unknown/a.py:1: _unknown has no place in the order",
        "cache.py:2: write imports of the package's own from where they are"]


def test_an_upward_import_of_a_room_in_a_room_is_found(tmp_path):
    for name in ("storage", "http"):
        (tmp_path / name).mkdir()
    (tmp_path / "storage" / "store.py").write_text(
        "from ..._base import whole_files\nfrom . import tables\nfrom ..errors import Away\n"
        "from ..http.app import make_app\nfrom .. import server\n")
    (tmp_path / "http" / "app.py").write_text("from ..storage import store\nfrom . import http\n")
    (tmp_path / "errors.py").write_text("from .storage.store import Store\n")
    assert violations(tmp_path, SERVICE_ORDER) == [
        "errors.py:1: errors imports storage", "storage/store.py:4: storage imports http",
        "storage/store.py:5: storage imports server"]
