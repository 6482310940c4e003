"""Folders are layers, and their rooms too: includes only go down (docs/ARCHITECTURE.md)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Lowest first: a file includes its own folder and those above it in this list. A folder that is not
# named has the place of the one that it is in.
ORDER = [
    "runtime/base",      # errors, expressions, files, the environment
    "runtime/store",     # caches on disk
    "runtime/vulkan",    # devices and their memory
    "runtime/spirv",     # kernels of unknown origin
    "runtime/spec",      # an engine as plain data, and its file
    "runtime/commands",  # from dispatches to command buffers
    "runtime/cuda",      # CUDA's tensors and streams
    "runtime/engine",    # engines, contexts, weights
    "runtime",           # what applications include
    "csrc/graph",
    "csrc/types",        # what operators say of shapes and dtypes
    "csrc/calibration",  # what int8 stands for: files, histograms, what was seen
    "csrc",              # what converters and passes are written with
    "csrc/operators",    # what each operator wants of its arguments
    "csrc/codegen",
    "csrc/lowering",
    "csrc/passes/kit",        # what passes are written with
    "csrc/passes/simplify",
    "csrc/passes/recognise",
    "csrc/passes/layouts",
    "csrc/passes/quantise",
    "csrc/passes/fuse",
    "csrc/passes/write",
    "csrc/compile",
    "csrc/partition",
    "csrc/frontends",
    "csrc/frontends/onnx/file",       # what is in a file, checked
    "csrc/frontends/onnx/emit",       # ATen nodes and their shapes
    "csrc/frontends/onnx/kit",        # what translations are written with
    "csrc/frontends/onnx/operators",  # of ai.onnx
    "csrc/frontends/onnx/microsoft",  # of com.microsoft
    "csrc/frontends/onnx",
    "csrc/tuner",
    "csrc/cache",
    "csrc/plan",         # what frontends call
    "csrc/division",     # ONNX models as engines and the rest
    "csrc/report",
    "csrc/tokenizer",    # texts to tokens and back
    "csrc/cli/text",
    "csrc/cli/tensors",
    "csrc/cli/flags",
    "csrc/cli/models",
    "csrc/cli/bench",
    "csrc/cli/calibrate",
    "csrc/cli/generate",
    "csrc/cli/compare",
    "csrc/cli/debug",
    "csrc/cli",          # vkexec
    "converters",
    "integrations/kit",  # what plugins share
    "integrations",      # plugins of other runtimes
    "python",
    "python/bindings/recording",  # what a program does on example inputs
    "python/bindings/torch",      # libtorch_vulkan
    "python/bindings/script",     # libtorch_vulkan_script
    "python/bindings/module",     # _C
    "workloads",         # what tests and benchmarks share
    "benchmarks",
    "tests/cpp/kit",
    "tests",
]
LAYERS = ["runtime", "csrc", "converters", "integrations", "python"]  # what is shipped
# What is behind csrc/plan: frontends and reports do not know it. They count what it did
# (engine_cache.h, tuner.h) and ask whether a node does work (dependencies.h).
FRONTENDS = ("csrc/frontends", "csrc/division", "csrc/report", "csrc/cli", "integrations",
             "python/bindings")
BEHIND_THE_PLAN = ("csrc/compile/", "csrc/lowering/", "csrc/passes/", "csrc/partition/merge.h",
                   "csrc/partition/unsupported.h", "csrc/partition/what_if.h")
BEHIND_CALLS = re.compile(r"(?<![.\w])(compile_cached|engine_key|unsupported|partition|extract)\(")
SUFFIXES = {".h", ".cpp", ".hpp", ".cc", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)
# Below converters/ each folder knows kit/ and itself; what else one builds on stands here, and not
# the other way round. A kernel's includes and the kernels that a converter names count as well.
BUILDS_ON = {"convolution": {"matmul"}, "indexing": {"sorting"}, "resampling": {"sorting"}}
KERNELS = {".comp", ".glsl"}
KERNEL_NAME = re.compile(r'\bkernel = "(\w+)"')
# Libraries that a folder, and with it all below it in ORDER, may know.
FROM_FOLDER = {"torch/": "python", "ATen/": "python", "c10/": "python", "pybind11/": "python",
               "Python.h": "python", "vulkan/": "runtime/vulkan", "spdlog/": "runtime/base",
               "glslang/": "csrc/codegen", "SPIRV/": "csrc/codegen",
               "pcre2.h": "csrc/tokenizer", "utf8proc.h": "csrc/tokenizer"}


def level_of(folder: str) -> int | None:
    """Where `folder`, or the nearest one above it that ORDER names, stands."""
    while folder:
        if folder in ORDER:
            return ORDER.index(folder)
        folder = folder.rpartition("/")[0]
    return None


def sources(root: Path):
    """The C++ files of the project, and their text."""
    for top in dict.fromkeys(folder.split("/")[0] for folder in ORDER):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and "torch_vulkan" not in path.parts:
                yield path.relative_to(root), path.read_text()


def includes(root: Path):
    """Each include below `root`: file, line, what is included."""
    for path, text in sources(root):
        for match in INCLUDE.finditer(text):
            yield path, text.count("\n", 0, match.start(2)) + 1, match[2]


def violations(root: Path) -> list[str]:
    """Every upward include below `root`, as "file:line: why"."""
    found = []
    for path, line, included in includes(root):
        where, folder = f"{path}:{line}", str(path.parent)
        level = level_of(folder)
        if level is None:
            found.append(f"{where}: {folder}/ has no place in ORDER")
            continue
        target = level_of(included.rpartition("/")[0])
        if included.startswith(".."):
            found.append(f"{where}: write the path from the root, not {included}")
        elif target is not None and target > level:
            found.append(f"{where}: {folder}/ includes {included}")
        elif (included.startswith("converters/") and path.parts[0] in LAYERS
              and path.parts[0] != "converters"):
            found.append(f"{where}: converters register themselves; nothing includes them")
        for library, lowest in FROM_FOLDER.items():
            if included.startswith(library) and ORDER.index(lowest) > level:
                found.append(f"{where}: {folder}/ includes {included}, known from {lowest}/ on")
    return found


def clients_that_see(root: Path, library: str, below: str) -> list[str]:
    """The files outside of `below` and tests/ that include `library`, through whatever header."""
    included = {}
    for path, _, header in includes(root):
        included.setdefault(str(path), set()).add(header)

    def reached(file, seen):
        for header in included.get(file, set()) - seen:
            seen.add(header)
            reached(header, seen)
        return seen

    return [file for file in included if not file.startswith((below, "tests/"))
            and any(header.startswith(library) for header in reached(file, set()))]


def cycles(root: Path) -> list[str]:
    """Includes between folders that reach each other, as "a/ <-> b/: file:line includes …"."""
    examples, reached = {}, {}
    for path, line, included in includes(root):
        folder, other = str(path.parent), included.rpartition("/")[0]
        if other != folder and level_of(other) is not None and (root / included).exists():
            examples.setdefault((folder, other), f"{path}:{line} includes {included}")
            reached.setdefault(folder, set()).add(other)
    grown = True
    while grown:
        grown = False
        for others in reached.values():
            more = set().union(*(reached.get(other, set()) for other in others)) - others
            grown |= bool(more)
            others |= more
    return [f"{a}/ <-> {b}/: {why}" for (a, b), why in sorted(examples.items())
            if a in reached.get(b, set())]


def beside_the_plan(root: Path) -> list[str]:
    """Every use by frontends of what is behind csrc/plan, as "file: what"."""
    def is_frontend(path):
        return str(path).startswith(FRONTENDS)

    found = [f"{path}:{line}: {included}" for path, line, included in includes(root)
             if is_frontend(path) and included.startswith(BEHIND_THE_PLAN)]
    return found + [f"{path}: {match[1]}()" for path, text in sources(root) if is_frontend(path)
                    for match in BEHIND_CALLS.finditer(text)]


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


def test_includes_only_go_down():
    assert violations(ROOT) == []


def test_vulkan_headers_stay_in_the_runtime():
    """What is installed, and what is built on it, compiles where Vulkan's headers are missing."""
    assert clients_that_see(ROOT, "vulkan/", "runtime/") == []


def test_a_client_of_vulkan_headers_is_found(tmp_path):
    for file, text in (("runtime/vulkan/a.h", "#include <vulkan/vulkan.h>"),
                       ("runtime/engine/b.h", '#include "runtime/vulkan/a.h"'),
                       ("python/c.cpp", '#include "runtime/engine/b.h"')):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert clients_that_see(tmp_path, "vulkan/", "runtime/") == ["python/c.cpp"]


def test_frontends_know_plan_and_build_alone():
    assert beside_the_plan(ROOT) == []


def test_a_way_beside_the_plan_is_found(tmp_path):
    folder = tmp_path / "csrc" / "cli"
    folder.mkdir(parents=True)
    (folder / "a.cpp").write_text('#include "csrc/compile/compile.h"\nspec = compile_cached(g);\n')
    assert beside_the_plan(tmp_path) == ["csrc/cli/a.cpp:1: csrc/compile/compile.h",
                                         "csrc/cli/a.cpp: compile_cached()"]


def test_no_two_folders_include_each_other():
    assert cycles(ROOT) == []


def test_every_room_has_sources():
    with_sources = {str(parent) for path, _ in sources(ROOT) for parent in path.parents}
    assert [folder for folder in ORDER if folder not in with_sources] == []


def test_tests_and_benchmarks_share_workloads_alone():
    """Neither imports the other: what both need is in workloads/."""
    wrong = []
    for top, other in (("tests", "benchmarks"), ("benchmarks", "tests")):
        imports = re.compile(rf'sys\.path.*"{other}"|^\s*(from|import) {other}\b', re.MULTILINE)
        wrong += [p for p in (ROOT / top).rglob("*.py") if imports.search(p.read_text())]
    assert wrong == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("runtime/engine/a.cpp", '#include "csrc/compile/compile.h"'),
        ("runtime/base/a.h", "#include <glslang/Public/ShaderLang.h>"),
        ("runtime/base/a.h", '#include "runtime/spec/vke.h"'),
        ("runtime/engine/a.h", '#include "runtime/engine.h"'),
        ("runtime/base/a.h", "#include <vulkan/vulkan.h>"),
        ("csrc/deep/a.cpp", '#  include "converters/kit/rows.h"'),
        ("csrc/a.cpp", "#include <torch/torch.h>"),
        ("csrc/graph/a.h", '#include "csrc/settings.h"'),
        ("csrc/lowering/a.h", '#include "csrc/passes/fuse/fuse.h"'),
        ("converters/a.cpp", '#include "python/bindings/a.h"'),
        ("python/bindings/a.cpp", '#include "converters/a.h"'),
        ("csrc/a.h", '#include "../python/a.h"'),
        ("runtime/base/a.cpp", '#include "tests/cpp/kit/sample_engine.h"'),
        ("benchmarks/native/a.cpp", '#include "tests/cpp/kit/sample_engine.h"'),
        ("workloads/a.cpp", '#include "benchmarks/native/a.h"'),
    ],
)
def test_an_upward_include_is_found(tmp_path, file, line):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"// text\n{line}\n")
    assert len(violations(tmp_path)) == 1 and violations(tmp_path)[0].startswith(f"{file}:2:")


def test_a_cycle_of_unnamed_folders_is_found(tmp_path):
    for folder, included in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        path = tmp_path / "converters" / folder / "x.h"
        path.parent.mkdir(parents=True)
        path.write_text(f'#include "converters/{included}/x.h"\n')
    assert violations(tmp_path) == []
    assert [cycle.split(":")[0] for cycle in cycles(tmp_path)] == [
        "converters/a/ <-> converters/b/", "converters/b/ <-> converters/c/",
        "converters/c/ <-> converters/a/"]


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


def test_cpp_tests_lie_as_the_sources_do():
    """The folder of a C++ test is one that has sources of its own."""
    tests = ROOT / "tests" / "cpp"
    folders = {path.parent.relative_to(tests) for top in ("runtime", "csrc")
               for path in (tests / top).rglob("*.cpp")}
    assert len(folders) > 20
    assert {folder for folder in folders if not [*(ROOT / folder).glob("*.cpp")]} == set()
