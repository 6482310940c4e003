"""A network that torch.onnx exports becomes, on a GPU, the launches that torch.compile makes of it:
counted without one, by compiling for a GPU's profile."""

import collections
import json
import warnings

import pytest
import torch
from test_exported_networks import export, some

from torch_vulkan._base.settings import Settings
from torch_vulkan._dynamo import backend
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C
from torch_vulkan._onnx import files

# A Gather counts indices below 0 from the end, which a kernel of its own does.
SAME = {"index": "index_select"}


@pytest.fixture(scope="module")
def gpu():
    fields = json.loads(C.DeviceProfile.builtin_default().to_json())
    fields |= {"name": "GPU", "max_shared_bytes": 49152, "memory_bytes": 1 << 37}
    return C.DeviceProfile.from_json(json.dumps(fields))


def tactics(vke) -> collections.Counter:
    names = [layer["tactic"] for layer in C.vke_info(vke)["layers"]]
    return collections.Counter(SAME.get(name, name) for name in names)


def of_torch(model, inputs, gpu, monkeypatch) -> collections.Counter:
    found = []

    def count(graph, settings, device, *others):
        found.append(tactics(C.build(C.plan(graph, settings, gpu, whole=True))))
        raise engine_call.BuildError("it was only counted")

    monkeypatch.setattr(backend, "device_profile", lambda *args, **kwargs: gpu)
    monkeypatch.setattr(engine_call, "compile_graph", count)
    torch._dynamo.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.compile(model, backend="vulkan")(**inputs)
    (one,) = found
    return one


def of_file(path, gpu) -> collections.Counter:
    settings = Settings.from_options({"require_full_compilation": True})
    imported = files.imported(path, {"inputs": {}, "constants": {}})
    plan = C.plan(imported.graph, settings.compiler_json(), gpu, whole=True)
    return tactics(C.build(plan))


@some("GPT-2")
def test_launches(name, gpu, monkeypatch, tmp_path):
    path = str(tmp_path / "net.onnx")
    model, inputs = export(name, 2, False, path)
    assert of_file(path, gpu) == of_torch(model, inputs, gpu, monkeypatch)


@some("BERT-base")
def test_a_dynamic_batch_keeps_attention_whole(name, gpu, tmp_path):
    whole, pieces = [], []
    for dynamic in (False, True):
        path = str(tmp_path / f"{dynamic}.onnx")
        export(name, 2, dynamic, path)
        found = of_file(path, gpu)
        whole.append(sum(n for tactic, n in found.items() if tactic.startswith("attention")))
        pieces.append(sum(n for tactic, n in found.items() if tactic.startswith("softmax")))
    assert whole[0] == whole[1] and pieces == [0, 0]
