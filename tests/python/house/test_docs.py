"""The pages of docs/: what they show runs as it stands."""

import re
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import torch_vulkan as tv

from helpers import assert_same

DOCS = Path(__file__).resolve().parents[3] / "docs"


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 7, stride=4), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)).eval()


def save_onnx(path, seed):
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    generator = numpy.random.default_rng(seed)
    weights = [onnx.numpy_helper.from_array(generator.standard_normal(shape).astype("f"), name)
               for name, shape in (("w", (4, 3, 7, 7)), ("b", (4,)))]
    info = make.make_tensor_value_info
    graph = make.make_graph(
        [make.make_node("Conv", ["x", "w", "b"], ["c"], strides=[7, 7]),
         make.make_node("Relu", ["c"], ["r"]), make.make_node("GlobalAveragePool", ["r"], ["y"])],
        "net", [info("x", onnx.TensorProto.FLOAT, ["n", 3, "h", "h"])],
        [info("y", onnx.TensorProto.FLOAT, ["n", 4, 1, 1])], weights)
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)


def test_builder_and_profiler(tmp_path, monkeypatch):
    """Its Python blocks, one after another, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```",
                            (DOCS / "builder_and_profiler.md").read_text(), re.S):
        exec(block, names)
    torch.testing.assert_close(names["out"].shape, names["result"].shape)
    assert {path.name for path in tmp_path.iterdir()} == {
        "net.vke", "trace.json", "layers.svg", "profile.json"}


def report_of_the_dry_run():
    """What its page shows."""
    (shown,) = re.findall(r"```text\n(.*?)```", (DOCS / "dry_run.md").read_text(), re.S)
    return shown


@pytest.mark.skipif(not torch.__version__.startswith("2.13"),
                    reason="the page shows the names that torch 2.13 gives")
def test_the_example_of_the_dry_run(tmp_path, monkeypatch):
    """What the page prints is what is printed."""
    page = (DOCS / "dry_run.md").read_text()
    (code,) = re.findall(r"```python\n(import torch\nfrom torch import nn\n.*?)```", page, re.S)
    (tmp_path / "detector.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    import detector

    text = str(tv.dry_run(detector.Detector().eval(), [torch.randn(1, 3, 64, 64)])) + "\n"
    assert text == report_of_the_dry_run()


def test_the_readme_shows_a_part_of_that_report():
    (part,) = re.findall(r"```text\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.S)
    assert {*part.splitlines()} <= {*report_of_the_dry_run().splitlines()}


def test_the_listings_of_adding_an_operator():
    """They are lines of the files that the page names, as they stand there."""
    page = (DOCS / "adding_an_operator.md").read_text()
    named = ["converters/pointwise/pointwise_unary.cpp", "converters/quantised/fake_quantize.cpp",
             "converters/data_movement/tril_triu.cpp", "converters/data_movement/tril_triu.comp",
             "converters/distance/cdist.cpp", "converters/normalisation/softmax.cpp",
             "tests/converters/test_join.py"]
    texts = {name: (DOCS.parent / name).read_text() for name in named}
    listings = re.findall(r"```(cpp|glsl|python)\n(.*?)```", page, re.S)
    assert [kind for kind, _ in listings] == [*["cpp"] * 6, "glsl", "python"]
    for name in named:
        assert name.split("/")[-1] in page
    for _, listing in listings:
        assert any(listing in text for text in texts.values()), listing


def test_files_that_pages_and_comments_name_exist():
    """`converters/…`, wherever a text of the repository names a file or folder below it, and files
    of the other rooms by their whole paths."""
    root = DOCS.parent
    kinds = {".md", ".h", ".cpp", ".py", ".sh", ".cmake", ".txt", ".comp", ".glsl"}
    texts = [path for folder in ("docs", "runtime", "csrc", "converters", "python", "tests",
                                 "benchmarks", "examples", "scripts", "cmake")
             for path in (root / folder).rglob("*") if path.suffix in kinds]
    assert len(texts) > 500
    missing = [f"{path.relative_to(root)}: {name}"
               for path in [*texts, root / "README.md", root / "CONTRIBUTING.md"]
               for name in re.findall(r"(?<![\w/])converters/[\w/]+(?:\.\w+)?(?![\w*])",
                                      path.read_text(errors="replace"))
               if not (root / name).exists() and path.name != "test_include_direction.py"]
    missing += [f"{path.relative_to(root)}: {name}"
                for path in [*texts, root / "README.md", root / "CONTRIBUTING.md"]
                if "tests" not in path.relative_to(root).parts  # they make files of such names
                for name in re.findall(
                    r"(?<![\w/.-])(?:csrc|runtime|python/torch_vulkan|integrations|scripts|examples)/"
                    r"[\w/]+\.(?:cpp|h|py|sh|inc)\b", path.read_text(errors="replace"))
                if not (root / name).exists()]
    # Kernels go by their name alone, in pages and in comments.
    kernels = {path.name for path in texts if path.suffix in {".comp", ".glsl"}}
    for path in texts:
        text = path.read_text(errors="replace")
        if path.suffix != ".md":
            text = "\n".join(re.findall(r"(?:#|//) .*", text))
        missing += [f"{path.relative_to(root)}: {name}"
                    for name in re.findall(r"(?<![\w/>*.])[a-z]\w+\.(?:comp|glsl)\b", text)
                    if name not in kernels]
    assert missing == []


def test_deployment(tmp_path, monkeypatch):
    """Its Python blocks, one after another, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # which one of them clears
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "deployment.md").read_text(), re.S)
    assert len(blocks) >= 7
    (settings,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "deployment.md").read_text(), re.S)
    (tmp_path / "net.yaml").write_text(settings)
    save_onnx("net.onnx", 0)
    names = {"model": network(0), "new_model": network(1),
             "loader": [torch.randn(2, 3, 224, 224)]}
    save_file(network(2).state_dict(), "weights.safetensors")
    for block in blocks:
        exec(block, names)
    x = torch.randn(2, 3, 224, 224)
    assert_same(names["program"](x), network(2)(x).detach())
    assert not names["found"].passed  # the program has other weights by then
    assert names["session"](x).shape == (2, 4, 1, 1)
