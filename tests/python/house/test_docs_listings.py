"""Every listing of README.md, CONTRIBUTING.md and docs/*.md is run here or in test_docs*.py, or is
part of a file that another test builds; and the pages themselves are in order."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from test_docs import network, save_onnx
from torch import nn

import torch_vulkan as tv
from torch_vulkan.__main__ import main
from torch_vulkan._service.commands.cli import make_parser as tv_compile

from vkexec_helpers import VKEXEC
from workloads.decoders import byte_tokenizer, decoder, prompt

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LISTING = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.S | re.M)
# Pages whose Python listings are run, one after another: here, or in test_docs.py and its like.
PYTHON = {"README.md", "onnx.md", "onnxruntime.md", "torchscript.md", "vkexec.md",
          "builder_and_profiler.md", "deployment.md", "dry_run.md", "generation.md",
          "custom_operators.md", "adding_an_operator.md", "low_precision.md", "service.md"}
# Files that C++ and CMake listings are excerpts of ("…" stands for what is left out). Tests build
# all of them.
EXCERPTS = {
    "adding_an_operator.md": ["converters/pointwise/pointwise_unary.cpp",
                              "converters/data_movement/tril_triu.cpp",
                              "converters/data_movement/tril_triu.comp",
                              "converters/normalisation/softmax.cpp",
                              "converters/distance/cdist.cpp",
                              "converters/quantised/fake_quantize.cpp"],
    "custom_operators.md": ["examples/cpp_converter/grey_converter.cpp",
                            "examples/cpp_converter/CMakeLists.txt"],
    "deployment.md": ["examples/cpp/run_program.cpp", "examples/cpp/run_engine.cpp"],
    "torchscript.md": ["examples/cpp/compile_program.cpp"],
}
# Written by a program, and compared with what it prints.
PRINTED = {"README.md", "dry_run.md", "custom_operators.md", "vkexec.md", "low_precision.md"}


def listings(page: Path, *languages: str) -> list[str]:
    """The listings of a page in these languages, without their indentation."""
    found = []
    for indent, language, text in LISTING.findall(page.read_text()):
        if language in languages:
            found.append("".join(line.removeprefix(indent) for line in text.splitlines(True)))
    return found


def page(name: str) -> Path:
    return next(p for p in PAGES if p.name == name)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_listing_is_checked(path):
    kinds = {language for _, language, _ in LISTING.findall(path.read_text())}
    known = {"python", "cpp", "glsl", "cmake", "sh", "text", "yaml", "dockerfile"}
    assert kinds <= known, "say what a listing is"
    assert "python" not in kinds or path.name in PYTHON
    assert not kinds & {"cpp", "glsl", "cmake"} or path.name in EXCERPTS
    assert "text" not in kinds or path.name in PRINTED | {"ARCHITECTURE.md", "triton.md"}
    assert "yaml" not in kinds or path.name in {"deployment.md", "vkexec.md"}  # read by tests
    assert "dockerfile" not in kinds or path.name == "images.md"  # tests/serving/test_images.py
    # A listing that is only indented would not be found.
    plain = LISTING.sub("", path.read_text())
    assert not re.search(r"\n\n    \S", plain)


@pytest.mark.parametrize("path", [*(p for p in PAGES if p.name != "operators.md"),
                                  *(ROOT / "docs" / "design").glob("*.md")],
                         ids=lambda path: path.name)
def test_lines_have_at_most_100_columns(path):
    """But for tables, listings and the lists that scripts write: most of operators.md."""
    text = LISTING.sub("", path.read_text())
    long = [line for line in text.splitlines()
            if len(line) > 100 and not line.lstrip().startswith("|") and line.count("`, `") < 7]
    assert long == []


@pytest.mark.parametrize("name", EXCERPTS)
def test_excerpts(name):
    """Each listing is a run of lines of one file, "…" standing for what is left out."""
    def code(text):
        return " ".join(re.sub(r" *// .*", "", text).split())

    texts = [code((ROOT / file).read_text()) for file in EXCERPTS[name]]
    found = listings(page(name), "cpp", "glsl", "cmake")
    assert found
    for listing in found:
        parts = [re.escape(part.strip()) for part in code(listing).split("…")]
        assert any(re.search(".*?".join(parts), text) for text in texts), listing


def test_readme():
    names = {"model": nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), "x": torch.randn(2, 4)}
    (block,) = listings(page("README.md"), "python")
    exec(block, names)
    torch.testing.assert_close(names["y"], names["model"](names["x"]))


def test_onnx(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_onnx("net.onnx", 0)
    save_onnx("finetuned.onnx", 1)
    save_onnx("detector.onnx", 2)
    names = {"array": np.random.default_rng(2).standard_normal((2, 3, 224, 224)).astype("f")}
    for block in listings(page("onnx.md"), "python"):
        exec(block, names)
    again = tv.onnx.compile("finetuned.onnx")(names["array"])
    np.testing.assert_allclose(names["y"], again, rtol=1e-4, atol=1e-6)
    assert Path("net.vke").is_file()


def test_onnxruntime(tmp_path):
    """In a process of its own, as a library is registered once."""
    package = ROOT / "integrations" / "onnxruntime" / "python"
    if not [*package.glob("onnxruntime_ep_vulkan/*.so")]:
        pytest.skip("the provider is not built (-DTV_ONNXRUNTIME=ON)")
    save_onnx(tmp_path / "net.onnx", 0)
    code = "\n".join([*listings(page("onnxruntime.md"), "python"),
                      "print(y.shape, session.get_providers())"])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(1, 4, 1, 1) ['VulkanExecutionProvider', 'CPUExecutionProvider']\n"
    assert (tmp_path / "net_ctx.onnx").is_file()


def test_torchscript(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"torch": torch, "tv": tv, "net": network(0), "images": torch.randn(8, 3, 224, 224)}
    first, ranges = listings(page("torchscript.md"), "python")
    exec(first, names)
    torch.testing.assert_close(torch.jit.load("net.pt")(names["images"]),
                               names["net"](names["images"]))
    exec(ranges, names)
    names["program"](torch.randn(3, 3, 80, 80))


def test_generation():
    reports = 0
    for block in listings(page("generation.md"), "python"):
        if "save_decoder" in block:
            continue
        torch._dynamo.reset()
        model = decoder("gpt2")
        names = {"torch": torch, "model": model, "inputs": prompt(model)}
        exec(block, names)
        wanted = decoder("gpt2").generate(**names["inputs"], max_new_tokens=16, do_sample=False)
        assert torch.equal(names["tokens"], wanted)
        if "report" in block:
            reports += 1
            assert str(names["report"]).replace("'", '"') in block
    assert reports == 1


def test_generation_in_cpp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"model": decoder("gpt2"), "tokenizer": byte_tokenizer()}
    (block,) = (b for b in listings(page("generation.md"), "python") if "save_decoder" in b)
    exec(block, names)
    (command,) = (line for b in listings(page("generation.md"), "sh") for line in b.splitlines()
                  if line.startswith("vkexec generate"))
    done = subprocess.run([VKEXEC, *shlex.split(command)[1:]], capture_output=True, text=True)
    assert done.returncode == 0 and len(done.stdout) > 64, done.stdout + done.stderr


def test_reference_tensors_for_vkexec(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    save_onnx("net.onnx", 0)
    (block,) = listings(page("vkexec.md"), "python")
    exec(block, {})
    assert {path.name for path in (tmp_path / "tensors").iterdir()} == {
        "x.npy", "c.npy", "r.npy", "y.npy"}
    done = subprocess.run([VKEXEC, "compare", "--onnx=net.onnx", "--ref=tensors"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_shader_that_does_not_compile():
    (shown,) = listings(page("custom_operators.md"), "text")
    with pytest.raises(ValueError) as caught:
        tv.custom_op("examples::bad", "(Tensor x, float gain) -> Tensor", """
void main() {
  uint i = tv_group();
  out_store(i, x_load(i) * gian);
}
""", None, lambda x, gain: x.shape)
    parts = [re.escape(part.strip()) for part in " ".join(shown.split()).split("…")]
    assert re.match(".*?".join(parts), " ".join(str(caught.value).split())), caught.value


def test_what_vkexec_refuses():
    """The first listing: each command, and the line that it prints."""
    shown = listings(page("vkexec.md"), "text")[0].splitlines()
    for command, said in zip(shown[::2], shown[1::2], strict=True):
        done = subprocess.run([VKEXEC, *shlex.split(command)[2:]], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr.splitlines()


def commands() -> list[tuple[str, list[str]]]:
    """The page and the words of each command in the "sh" listings of all pages."""
    found = []
    for path in PAGES:
        for listing in listings(path, "sh"):
            text = re.sub(r"\w+=\$\(.*?\)\n", "", listing.replace("\\\n", " "), flags=re.S)
            found += [(path.name, words) for line in text.splitlines()
                      if (words := shlex.split(line, comments=True))]
    return found


def test_commands():
    """Programs, scripts, flags and targets that pages call exist."""
    checked = 0
    for where, words in commands():
        words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
        line, program = f"{where}: {' '.join(words)}", words[0] if words else "export"
        files = [word for word in words if re.fullmatch(
            r"(scripts|benchmarks|tests|examples)/[\w/.]+", word)]
        assert all((ROOT / file).exists() for file in files), line
        if words[1:3] == ["-m", "torch_vulkan"]:
            names = words[3:5] if words[3] == "cache" else words[3:4]
            with pytest.raises(SystemExit) as ended:
                main([*names, "--help"])
            assert ended.value.code == 0, line
        elif files and files[0].startswith("benchmarks/"):
            text = (ROOT / files[0]).read_text() + (ROOT / "benchmarks/operators.py").read_text()
            assert all(f'"{w}"' in text for w in words if w.startswith("--")), line
        elif program == "make":
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), line
        elif program == "docker":
            stages = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.M)
            targets = [words[i + 1] for i, word in enumerate(words) if word == "--target"]
            assert set(targets) <= set(stages), line
        elif program.startswith("build-examples/"):
            listed = (ROOT / "examples/cpp/CMakeLists.txt").read_text()
            assert f"add_executable({program.split('/')[1]} " in listed, line
        elif program == "tv-compile":
            tv_compile().parse_args(words[1:])
        elif program == "vkexec":
            verb = [word for word in words[1:2] if word in ("compare", "generate", "debug")]
            verb += words[2:3] if verb == ["debug"] else []
            said = subprocess.run([VKEXEC, *verb, "--help"], capture_output=True, text=True).stdout
            assert all(w.split("=")[0] in said for w in words if w.startswith("--")), line
        else:
            assert files or program in ("cmake", "ninja", "pip", "polygraphy", "ray",
                                        "tritonserver", "curl", "export", ".venv/bin/python",
                                        "build/tests/cpp/tv_tests"), line
            continue
        checked += 1
    assert checked >= 15


def test_settings_in_other_listings():
    """The file that vkexec.md shows, and the parameters in triton.md, name settings."""
    names = {field.name for field in dataclasses.fields(tv.Settings)}
    for text in listings(page("vkexec.md"), "yaml"):
        assert set(yaml.safe_load(text)) <= names
    keys = re.findall(r'key: "(\w+)"', page("triton.md").read_text())
    assert keys and set(keys) <= names


def test_commands_of_tables():
    """Those of docs/performance.md: each program is there and has the flags."""
    text = page("performance.md").read_text()
    named = re.findall(r"`(?:python )?(benchmarks/\w+\.py)([^`]*)`", text)
    assert len(named) >= 10
    for program, rest in named:
        source = (ROOT / program).read_text() + (ROOT / "benchmarks/operators.py").read_text()
        assert all(f'"{word}"' in source for word in rest.split() if word.startswith("--")), program


def test_the_rooms_of_the_architecture():
    """Paths that the page names exist, and it names every room."""
    text = page("ARCHITECTURE.md").read_text()
    sections = dict(re.findall(r"^### `(\w+)/`.*?\n(.*?)(?=^##|\Z)", text, re.S | re.M))
    roots = [ROOT, *(ROOT / name for name in ("runtime", "csrc", "converters", "integrations",
                                              "python/bindings", "python/torch_vulkan",
                                              "tests/python"))]
    places = [*roots, *(p for root in roots for p in root.iterdir() if p.is_dir())]
    named = {name for name in re.findall(r"`([\w/]+(?:\.\w+|/))`", text)
             if name.endswith("/") or name.rsplit(".")[-1] in ("h", "cpp", "py", "glsl", "md")}
    assert len(named) > 50
    assert {n for n in named if not any((place / n).exists() for place in places)} == set()
    (diagram,) = listings(page("ARCHITECTURE.md"), "text")
    drawn = re.findall(r"\w+/[\w/.*]*", diagram)
    assert len(drawn) > 10
    assert [path for path in drawn if not [*ROOT.glob(path)]] == []
    for root in (ROOT / "runtime", ROOT / "csrc", ROOT / "python/torch_vulkan",
                 ROOT / "python/torch_vulkan/_service", ROOT / "tests", ROOT / "tests/python"):
        rooms = {p.name for p in root.iterdir() if p.is_dir() and any(p.glob("*.[chp]*"))}
        section = {"torch_vulkan": "python", "_service": "python",
                   "python": "tests"}.get(root.name, root.name)
        unnamed = {room for room in rooms if f"`{room}/" not in sections[section]
                   and f"`csrc/{room}/" not in text and f"{root.name}/{room}/" not in text}
        assert unnamed <= {"bin", "lib", "__pycache__"}, root


def test_functions_that_pages_name_exist():
    """`name()` of this project's, in the pages about its sources."""
    sources = "\n".join(path.read_text(errors="replace") for folder in (
        "runtime", "csrc", "converters", "python", "workloads")
        for path in (ROOT / folder).rglob("*") if path.suffix in {".h", ".cpp", ".py", ".glsl"})
    named = {name for path in ("ARCHITECTURE.md", "kernels.md", "adding_an_operator.md")
             for name in re.findall(r"`(?:\w+(?:::|\.))*(\w+)\(\)`", page(path).read_text())}
    assert len(named) >= 5
    assert {name for name in named if not re.search(rf"\b{name}\(", sources)} == set()
