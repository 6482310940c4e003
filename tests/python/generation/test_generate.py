"""transformers' `generate` with a compiled forward: eager's tokens and logits, graphs that are not
compiled again for other lengths, and caches that are written where they lie."""

import inspect
import itertools
import warnings

import pytest
import torch
import transformers
from transformers import CompileConfig

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._fx import mutation

from marks import slow_but, turns
from seeds import share_of
from workloads.decoders import DECODERS, cache_moves, decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

STEPS = 64
# The same token for ever would say little.
GREEDY = {"do_sample": False, "no_repeat_ngram_size": 2, "max_new_tokens": STEPS,
          "return_dict_in_generate": True, "output_logits": True}
WAYS = ("dynamic", "static", "config")


def compiled_arguments(model, way):
    """Compiles `model` as users do; returns what `generate` is given for it."""
    if way != "config":
        model.forward = torch.compile(model.forward, backend="vulkan")
        return {"cache_implementation": "static"} if way == "static" else {}
    config = CompileConfig(backend="vulkan")
    config._compile_all_devices = True  # without it transformers compiles on GPUs alone
    return {"cache_implementation": "static", "compile_config": config}


def logits(out):
    return torch.stack(out.logits)


def assert_generates_the_same(name, way, prompts, **arguments):
    """Tokens and logits of each prompt are eager's; returns the model and the compilations of each
    call."""
    model = decoder(name)
    inputs = [prompt(model, *p) if isinstance(p, tuple) else p for p in prompts]
    static = {"cache_implementation": "static"} if way != "dynamic" else {}
    wanted = [model.generate(**i, **GREEDY | static | arguments, disable_compile=True)
              for i in inputs]
    own = compiled_arguments(model, way)
    compiled = []
    for given, want in zip(inputs, wanted, strict=True):
        before = len(compilations.compilations())
        got = model.generate(**given, **GREEDY | own | arguments)
        assert torch.equal(got.sequences, want.sequences)
        error = (logits(got) - logits(want)).abs().max() / logits(want).abs().max()
        assert error < 1e-4, float(error)
        compiled.append(compilations.compilations()[before:])
    assert compiled[0], "nothing was compiled"
    return compiled


ROWS = [(name, way) for name in DECODERS for way in WAYS
        if not (name == "mamba" and way == "static")]
QUICK = share_of(ROWS, 20)


@turns(2)
@pytest.mark.parametrize("name,way", [
    pytest.param(*row, marks=() if row in QUICK else pytest.mark.slow) for row in ROWS])
def test_families(name, way):
    prompts = [(1, 7), (1, 11), (1, 13)] if name != "whisper" else [(1,), (1,)]
    compiled = assert_generates_the_same(name, way, prompts)
    assert compiled[-1] == [], "a third length was compiled again"
    for record in itertools.chain(*compiled):
        assert len(record.engines) == 1 and record.coverage == 1, record.native


@pytest.mark.parametrize("way", slow_but(share_of(WAYS, 3), WAYS))
def test_left_padding_in_a_batch(way):
    model = decoder("llama")
    given = prompt(model, 3, 9)
    for row, padding in enumerate((0, 4, 7)):
        given["input_ids"][row, :padding] = 0
        given["attention_mask"][row, :padding] = 0
    assert_generates_the_same("llama", way, [given])


@turns(2, group="modes")
@pytest.mark.parametrize("name", slow_but(("llama",), ("llama", "gpt2", "t5")))
def test_beam_search(name):
    plain = {"return_dict_in_generate": False, "output_logits": False}
    model = decoder(name)
    given = prompt(model, 2)
    arguments = GREEDY | plain | {"num_beams": 3, "max_new_tokens": 16}
    want = model.generate(**given, **arguments)
    own = compiled_arguments(model, "dynamic")
    assert torch.equal(model.generate(**given, **own, **arguments), want)


# Steps of a window that has moved pass over it once, to move it.
LAYERS_THAT_MOVE = {"gpt2": 0, "llama": 0, "mistral": 2, "gemma3": 1}


@pytest.mark.parametrize("name", slow_but(
    ("mistral", share_of(("gpt2", "llama"), 2)[0]), LAYERS_THAT_MOVE))
def test_no_cache_is_copied(name, monkeypatch):
    """By PyTorch, or by launches of an engine that pass over a whole cache. Mistral's and Gemma's
    windows are shorter than the text, and their caches have to hold what eager's hold."""
    copied = []
    write_over = mutation.write_over

    def counted(tensor, value):
        copied.append(tensor.numel() * tensor.element_size())
        write_over(tensor, value)

    monkeypatch.setattr(mutation, "write_over", counted)
    assert_generates_the_same(name, "config", [(2, 30)], max_new_tokens=8)
    model = decoder(name)
    model.forward = torch.compile(model.forward, backend="vulkan")
    arguments = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": "static"}
    model.generate(**prompt(model, 2, 30), **arguments)
    with tv.profile(runs=1) as profile:
        model.generate(**prompt(model, 2, 30), **arguments)
    assert sum(copied) == 0
    last = max(layer["call"] for layer in profile.layers)
    config = model.config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    length = min(getattr(config, "sliding_window", None) or 34, 34)
    size = 2 * heads * width * length * 4
    moves = cache_moves([layer for layer in profile.layers if layer["call"] == last], size)
    assert len(moves) == 2 * LAYERS_THAT_MOVE[name], moves
    assert all(move["tactic"] == "roll_in_place" for move in moves)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixtral", "qwen_moe"])
def test_experts_in_one_engine(name):
    """As docs/generation.md says it: the weights of chosen experts are gathered and multiplied."""
    model = decoder(name)
    given = prompt(model)
    arguments = {"max_new_tokens": 16, "do_sample": False}
    want = model.generate(**given, **arguments)
    model.set_experts_implementation("batched_mm")
    model.forward = torch.compile(model.forward, backend="vulkan")
    got = model.generate(**given, **arguments, cache_implementation="static")
    assert torch.equal(got, want)
    for record in compilations.compilations():
        assert len(record.engines) == 1 and record.coverage == 1, record.native


@turns(2, group="modes")
def test_a_mode_is_accepted():
    model = decoder("gpt2")
    given = prompt(model)
    arguments = {"max_new_tokens": 4, "do_sample": False}
    want = model.generate(**given, **arguments)
    model.forward = torch.compile(model.forward, backend="vulkan", mode="reduce-overhead")
    assert torch.equal(model.generate(**given, **arguments), want)


def test_a_prompt_longer_than_the_cache_is_an_error():
    model = decoder("llama")
    given = prompt(model, 1, 12)
    model.forward = torch.compile(model.forward, backend="vulkan")
    cache = transformers.StaticCache(config=model.config, max_cache_len=8)
    # Versions of transformers differ in the argument's name.
    takes = inspect.signature(type(model).forward).parameters
    given["cache" if "cache" in takes else "past_key_values"] = cache
    with warnings.catch_warnings(), pytest.raises(IndexError, match="out of (bounds|range)"):
        warnings.simplefilter("ignore")
        model.generate(**given, max_new_tokens=4, do_sample=False)
    assert compilations.compilations()[0].engines
