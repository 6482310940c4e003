"""How many launches the networks of docs/models.md take on a GPU, counted without one: the graphs
are compiled for a GPU's profile, and PyTorch runs them."""

import inspect
import json
import warnings

import pytest
import torch
from transformers import CompileConfig, StaticCache

import torch_vulkan as tv
from torch_vulkan._dynamo import backend
from torch_vulkan._fx import engine_call
from torch_vulkan._native import C

from marks import slow_but, turns
from workloads.checks import tensors
from workloads.decoders import decoder, prompt
from workloads.networks import NETWORKS


@pytest.fixture(scope="module")
def gpu():
    """A large discrete GPU with every feature that the built-in profile has."""
    fields = json.loads(C.DeviceProfile.builtin_default().to_json())
    fields |= {"name": "GPU", "max_shared_bytes": 49152, "memory_bytes": 1 << 37}
    return C.DeviceProfile.from_json(json.dumps(fields))


@pytest.fixture
def infos(gpu, monkeypatch):
    """What each engine holds that is compiled for the GPU in the test."""
    found = []

    def count(graph, settings, device, *others):
        found.append(C.vke_info(C.build(C.plan(graph, settings, device, whole=True))))
        raise engine_call.BuildError("it was only counted")

    monkeypatch.setattr(backend, "device_profile", lambda *args, **kwargs: gpu)
    monkeypatch.setattr(engine_call, "compile_graph", count)
    return found


def compile_for_gpu(model, inputs, **options):
    """Calls the model once; its graphs run natively."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.compile(model, backend="vulkan", options=options)(**inputs)


# One network with convolutions and one with attention.
FIRST = ("ResNet-50", "BERT-base")
LIMITS = {"ResNet-50": 60, "BERT-base": 90, "BERT-base, mask": 93, "GPT-2": 110, "ViT-B/16": 92}


def launches(name, dtype, infos):
    network = NETWORKS[name]
    inputs = tensors(network.inputs(1, False, 0), "cpu", dtype)
    compile_for_gpu(network.make(False).to(dtype), inputs)
    (info,) = infos
    assert 0 < len(info["layers"]) <= LIMITS[name], [layer["name"] for layer in info["layers"]]


@turns(3)
@pytest.mark.parametrize("name", slow_but((*FIRST, "ViT-B/16"), LIMITS))
def test_launches(name, infos):
    launches(name, torch.float32, infos)


@turns(2)
@pytest.mark.parametrize("name", slow_but(FIRST, LIMITS))
def test_launches_of_float16(name, infos):
    launches(name, torch.float16, infos)


# Of a token, for each layer: what normalises and multiplies for queries, keys and values; what
# rotates and writes them into the cache; attention; its projection; what normalises, multiplies and
# gates; down. Qwen3 normalises what it rotates. GPT-2 has no gate, and its weights lie transposed:
# norms and the write stand alone.
LAUNCHES_OF_A_LAYER = {"llama": 6, "llama, int4": 6, "qwen3": 6, "phi3": 6, "gpt2": 8}


# A cache of so many positions is read by several workgroups, whose sums one more launch adds up.
SPLIT_FROM, LONG = 128, 512


@pytest.mark.parametrize("room", [16, LONG])
@pytest.mark.parametrize("name", slow_but(("llama", "llama, int4"), LAUNCHES_OF_A_LAYER))
def test_launches_of_a_token(name, room, infos):
    model = decoder(name.removesuffix(", int4"))
    if name.endswith("int4"):
        # Groups of 16 elements do not divide what down reads.
        model = tv.quantize(model, "int4", group_size=16, exclude=["lm_head", r".*\.down_proj"])
    config = CompileConfig(backend="vulkan")
    config._compile_all_devices = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = StaticCache(config=model.config, max_cache_len=room)
        takes = inspect.signature(type(model).forward).parameters
        model.generate(**prompt(model), compile_config=config, max_new_tokens=3, do_sample=False,
                       **{"cache" if "cache" in takes else "past_key_values": cache})
    (info,) = infos
    paths = [layer["module_path"] for layer in info["layers"]]
    of_layer = [path for path in paths if ".1" in path or path.startswith("1")]
    assert 5 < len(of_layer) <= LAUNCHES_OF_A_LAYER[name] + (room >= SPLIT_FROM), [
        (layer["name"], layer["module_path"]) for layer in info["layers"]]
    assert not any(layer["name"].endswith("_written") for layer in info["layers"])


@pytest.mark.parametrize("name", slow_but(
    ("llama", "falcon"), ("llama", "gpt2", "mistral", "qwen3", "falcon")))
def test_no_mask_is_computed(name, infos):
    """Of prompts and steps of tv.generate: attention is told where the queries are."""
    model = decoder(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tv.generate(model, prompt(model)["input_ids"], 2)
    assert len(infos) == 2
    for info in infos:
        made = [op for layer in info["layers"] for op in layer["ops"]]
        assert any("attention" in op for op in made)
        assert not {"aten::le.Tensor", "aten::gt.Tensor", "aten::where.self"} & {*made}


@turns(2, group="whole networks")
def test_no_mask_of_eager_attention_is_computed(infos, device):
    """Where the least number is added to hidden scores, queries are checked to see themselves; with
    padding, where some may see nothing, the mask stays."""
    if device.type != "cpu":
        pytest.skip("on GPUs eager attention stays two products and a softmax, with its mask")
    model = decoder("gemma2")
    model.set_attn_implementation("eager")
    given = prompt(model, 2, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tv.generate(model, given["input_ids"], 2)
        _, step = infos  # of the prompt the mask is constant
        made = [op for layer in step["layers"] for op in layer["ops"]]
        assert any("attention" in op for op in made)
        assert not {"aten::le.Tensor", "aten::gt.Tensor", "aten::where.self"} & {*made}
        infos.clear()
        given["attention_mask"][0, :3] = 0
        tv.generate(model, given["input_ids"], 2, attention_mask=given["attention_mask"])
        for info in infos:
            assert "aten::where.self" in [op for layer in info["layers"] for op in layer["ops"]]


def test_experts_of_a_token(infos):
    """A row for each expert that a token chose reads that expert's matrix alone, where it lies."""
    model = decoder("mixtral")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tv.generate(model, prompt(model)["input_ids"], 2)
    _, step = infos
    tactics = [layer["tactic"] for layer in step["layers"]]
    grouped = [tactic for tactic in tactics if tactic.startswith("matmul_grouped")]
    assert len(grouped) == 2 * model.config.num_hidden_layers
    assert all(tactic.startswith("matmul_grouped_rows") for tactic in grouped)


@turns(2, group="whole networks")
@pytest.mark.parametrize("name", slow_but(
    ("ResNet-50",), ["ResNet-50", "BERT-base", "GPT-2", "ViT-B/16"]))
def test_enabled_precisions_take_the_tactics_of_float16(name, infos):
    network = NETWORKS[name]
    model, inputs = network.make(False), network.inputs(1, False, 0)
    compile_for_gpu(model, inputs, enabled_precisions={torch.float32, torch.float16})
    torch._dynamo.reset()
    compile_for_gpu(model.half(), tensors(inputs, "cpu", torch.float16))
    mixed, half = ([layer["tactic"] for layer in info["layers"]
                    if not layer["tactic"].startswith(("pointwise", "copy"))] for info in infos)
    assert mixed == half
    # What is left are casts of the engine's inputs and outputs.
    assert len(infos[0]["layers"]) <= len(infos[1]["layers"]) + 2


def test_smoothed_inputs_take_no_launch_of_their_own(infos):
    """SmoothQuant's factors are part of the norm, or the product, that makes the input."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.LayerNorm(256), torch.nn.Linear(256, 512), torch.nn.GELU(),
                                torch.nn.Linear(512, 256)).eval()
    batches = [torch.randn(32, 256) for _ in range(2)]
    for smooth in (False, True):
        torch._dynamo.reset()
        compile_for_gpu(model, {"input": batches[0]}, min_block_size=1, optimization_level=0,
                        enabled_precisions={torch.float32, torch.int8},
                        calibration=tv.calibrate(model, batches, "minmax", smooth_quant=smooth))
    assert [len(info["layers"]) for info in infos] == [3, 3]
