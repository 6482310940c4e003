"""What of the package is public: a few modules, and the names of torch_vulkan itself."""

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torch_vulkan as tv

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python" / "torch_vulkan"
# `dynamo_backend`: entry points name it.
PUBLIC = {"cache", "compilations", "dynamo_backend", "onnx", "onnx_backend", "service"}
ON_DEMAND = {"AutoModel", "Config", "register", "service"}
CLASSES = sorted(name for name in tv.__all__ if isinstance(getattr(tv, name), type))


def test_what_is_not_public_has_an_underscore():
    modules = {path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py")}
    found = {parts[0] for parts in modules if not any(part.startswith("_") for part in parts)}
    assert found | {"service"} == PUBLIC
    assert {parts[1] for parts in modules if parts[0] == "service"} == {"__init__", "__main__"}


def test_dir_shows_what_is_public():
    assert dir(tv) == sorted({*tv.__all__, *ON_DEMAND, "__version__"})
    assert all(getattr(tv, name) is not None for name in tv.__all__)


def test_nothing_else_lies_in_the_package():
    """In a process of its own: here others may have imported more."""
    code = """
import torch_vulkan as tv
print(*sorted({n for n in vars(tv) if not n.startswith("_")} - {*tv.__all__}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The folder of the libraries; what registers the backend where no entry point does.
    assert set(done.stdout.split()) <= {"lib", "dynamo_backend"}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_known_by_their_public_names(name):
    kind = getattr(tv, name)
    assert (kind.__module__, kind.__qualname__) == ("torch_vulkan", name)
    assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize("owner, name", [
    ("torch_vulkan", "Config"), ("torch_vulkan.service", "AutoModel"),
    ("torch_vulkan.service", "Client"), ("torch_vulkan.service", "ServiceError")])
def test_classes_found_on_demand_as_well(owner, name):
    pytest.importorskip("pydantic")
    kind = getattr(tv if owner == "torch_vulkan" else tv.service, name)
    assert kind.__module__ == owner and pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize("value", [
    tv.Input((2, 3)), tv.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(4, 3)),
    tv.Profile(x=((1, 3), (2, 3), (4, 3))), tv.Settings(min_block_size=2),
    tv.UnsupportedError("no")], ids=lambda value: type(value).__name__)
def test_values_are_pickled(value):
    again = pickle.loads(pickle.dumps(value))
    assert type(again) is type(value) and repr(again) == repr(value)


def test_examples_and_pages_use_nothing_private():
    private = re.compile(r"(?:torch_vulkan|\btv)\.(_[a-z]\w*)|from torch_vulkan(?:\.\w+)? import _")
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.py"), ROOT / "README.md"]
    found = {f"{path.relative_to(ROOT)}: {m[0]}" for path in pages
             for m in private.finditer(path.read_text())}
    assert not found


def test_every_public_name_is_on_a_page():
    """As `tv.name`, in text or in a listing."""
    pages = "\n".join(path.read_text() for path in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
    named = set(re.findall(r"\b(?:tv|torch_vulkan)\.(\w+)", pages))
    assert {*dir(tv)} - {"__version__"} <= named, {*dir(tv)} - named


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_class_shows_says_what_it_is(name):
    """Attributes that are plain data stand in the class's docstring."""
    kind = getattr(tv, name)
    assert inspect.getdoc(kind)
    silent = [member for member, value in vars(kind).items() if not member.startswith("_")
              and (callable(value) or isinstance(value, (property, classmethod, staticmethod)))
              and not inspect.getdoc(value)]
    assert silent == []
