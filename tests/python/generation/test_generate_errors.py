"""What goes wrong around generation is an error, or eager mode's result: never another call's
memory."""

import copy
import gc
import inspect

import pytest
import torch
import transformers

import torch_vulkan as tv

from marks import slow_but, turns
from workloads.decoders import decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def forward(model, ids, cache):
    takes = inspect.signature(type(model).forward).parameters
    with torch.no_grad():
        return model(input_ids=ids, use_cache=True,
                     **{"cache" if "cache" in takes else "past_key_values": cache}).logits[:, -1]


def static(model, room=32, **changes):
    """A static cache with memory of its own."""
    config = model.config
    cache = transformers.StaticCache(config=config, max_cache_len=room)
    given = {"batch_size": 1, "num_heads": config.num_key_value_heads,
             "head_dim": config.hidden_size // config.num_attention_heads,
             "dtype": torch.float32, "device": torch.device("cpu")} | changes
    cache.early_initialization(*given.values())
    return cache


@pytest.fixture
def pair():
    """A model in eager mode, and the same compiled."""
    model = decoder("llama")
    fast = copy.deepcopy(model)
    fast.forward = torch.compile(fast.forward, backend="vulkan")
    return model, fast


@turns(3, group="changes")
def test_a_text_that_outgrows_its_cache(pair):
    """The prompt fits, a later position does not."""
    model, fast = pair
    ids, cache = prompt(model, 1, 6)["input_ids"], static(model, 8)
    forward(fast, ids, cache)
    for _ in range(2):
        forward(fast, ids[:, :1], cache)
    with pytest.raises(IndexError, match="out of (bounds|range)"):
        forward(fast, ids[:, :1], cache)
    other = static(model, 8)  # nothing is left of it
    torch.testing.assert_close(forward(fast, ids, other), forward(model, ids, static(model, 8)))


@turns(3)
@pytest.mark.parametrize("changes", [
    {"dtype": torch.float64}, {"batch_size": 2}, {"num_heads": 1}, {"head_dim": 4}])
def test_a_cache_of_another_kind(changes, pair):
    """An error as in eager mode, where that has one, and its result else."""
    model, fast = pair
    ids = prompt(model, 1, 6)["input_ids"]
    try:
        want = forward(model, ids, static(model, **changes))
    except Exception as error:  # what it is depends on the version of PyTorch
        with pytest.raises(Exception) as raised:  # noqa: PT011
            forward(fast, ids, static(model, **changes))
        assert not isinstance(raised.value, torch.AcceleratorError), error
    else:
        torch.testing.assert_close(forward(fast, ids, static(model, **changes)), want)
    torch.testing.assert_close(forward(fast, ids, static(model)),
                               forward(model, ids, static(model)))


def replaced(cache):
    """Other memory, the same contents."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys.clone(), layer.values.clone()
        layer.cumulative_length = layer.cumulative_length.clone()
    return cache


def swapped(cache):
    """Keys and values of one layer in the other's place, and back at the next step."""
    a, b = cache.layers
    a.keys, b.keys = b.keys, a.keys
    return cache


def renewed(cache):
    """A copy, and the old one is freed, whose memory the next one may be given."""
    twin = copy.deepcopy(cache)
    del cache
    gc.collect()
    return twin


@turns(3)
@pytest.mark.parametrize("change", [replaced, swapped, renewed])
def test_a_cache_that_is_replaced_between_steps(change, pair):
    model, fast = pair
    ids = prompt(model, 1, 6)["input_ids"]
    caches = [static(model), static(model)]
    torch.testing.assert_close(forward(fast, ids, caches[1]), forward(model, ids, caches[0]))
    for step in range(6):
        caches = [change(cache) for cache in caches]
        token = ids[:, step % 6:][:, :1]
        torch.testing.assert_close(forward(fast, token, caches[1]),
                                   forward(model, token, caches[0]))


@turns(2, group="interleaved")
def test_interleaved_generations(pair):
    """Two texts on one compiled model, step by step in turn."""
    model, fast = pair
    texts = [prompt(model, 1, length, seed)["input_ids"] for seed, length in ((1, 5), (2, 9))]
    caches = [(static(model), static(model)) for _ in texts]
    for text, (own, other) in zip(texts, caches, strict=True):
        torch.testing.assert_close(forward(fast, text, own), forward(model, text, other))
    for step in range(5):
        for text, (own, other) in zip(texts, caches, strict=True):
            token = text[:, step:step + 1]
            torch.testing.assert_close(forward(fast, token, own), forward(model, token, other))


class Takes:
    """A streamer that does something at each token."""

    def __init__(self, act):
        self._act = act

    def put(self, tokens):
        if tokens.dim() == 1:
            self._act()

    def end(self):
        pass


@turns(2, group="interleaved")
@pytest.mark.parametrize("name", slow_but(("llama",), ("llama", "mistral")))
def test_interleaved_loops(name):
    """A generation at each token of another, of the same and of another length."""
    model = decoder(name)
    texts = [prompt(model, 1, length, seed)["input_ids"] for seed, length in ((1, 5), (2, 9))]
    wants = [model.generate(text, max_new_tokens=8, do_sample=False) for text in texts]

    def other():
        for text, want in zip(texts, wants, strict=True):
            assert torch.equal(tv.generate(model, text, 8), want)

    for text, want in zip(texts, wants, strict=True):
        assert torch.equal(tv.generate(model, text, 8, streamer=Takes(other)), want)


@turns(3, group="changes")
def test_an_interrupt_at_any_token():
    model = decoder("llama")
    ids = prompt(model, 1, 5)["input_ids"]
    want = model.generate(ids, max_new_tokens=8, do_sample=False)
    for last in range(1, 7):
        left = iter(range(last))

        def interrupt(left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tv.generate(model, ids, 8, streamer=Takes(interrupt))
        assert torch.equal(tv.generate(model, ids, 8), want)


@turns(3, group="changes")
def test_weights_that_change_within_a_text():
    """Of a loop that calls its engine alone."""
    model = decoder("llama")
    ids = prompt(model, 1, 5)["input_ids"]

    def text(generate):
        twin, count = copy.deepcopy(model), [0]

        def act():
            count[0] += 1
            if count[0] == 5:
                with torch.no_grad():
                    twin.model.layers[0].mlp.up_proj.weight.neg_()

        return generate(twin, act)

    want = text(lambda twin, act: twin.generate(ids, max_new_tokens=12, do_sample=False,
                                                streamer=Takes(act)))
    got = text(lambda twin, act: tv.generate(twin, ids, 12, streamer=Takes(act)))
    assert torch.equal(got, want)


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 80, "pad_token_id": 1,
         "bos_token_id": 2, "eos_token_id": None}
LONG = {"type": "longrope", "rope_type": "longrope", "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4}


def of_config(name, config, **values):
    torch.manual_seed(0)
    return getattr(transformers, name)(getattr(transformers, config)(**values)).eval()


@pytest.mark.parametrize("name, config, values, said", [
    ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig",
     {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4}, "takes no cache"),
    ("GPTNeoForCausalLM", "GPTNeoConfig",
     {"vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
      "attention_types": [[["global", "local"], 1]]}, "wrongly with a cache of fixed size"),
    ("JambaForCausalLM", "JambaConfig",
     {**SMALL, "num_key_value_heads": 2, "use_mamba_kernels": False}, "other things than keys"),
    ("Phi3ForCausalLM", "Phi3Config",
     {**SMALL, "original_max_position_embeddings": 16, "rope_scaling": LONG},
     "max_new_tokens=20, want at most 16 together: .*longrope"),
])
def test_models_that_would_give_other_tokens(name, config, values, said):
    """transformers computes them otherwise than in steps on a cache of fixed size."""
    with pytest.raises(ValueError, match=said):
        tv.generate(of_config(name, config, **values), torch.ones(1, 7, dtype=torch.long), 20)


@pytest.mark.parametrize("name, config, values", [
    ("RobertaForCausalLM", "RobertaConfig", {**SMALL, "is_decoder": True}),
    ("Phi3ForCausalLM", "Phi3Config", {
        **SMALL, "original_max_position_embeddings": 64, "rope_scaling": LONG})])
def test_positions_are_those_of_generate(name, config, values):
    model, ids = of_config(name, config, **values), torch.randint(3, 99, (2, 7))
    got = tv.generate(model, ids, 20, optimization_level=0)
    assert torch.equal(got, model.generate(ids, max_new_tokens=20, do_sample=False))


def test_positions_that_depend_on_tokens_are_not_saved(tmp_path):
    model = of_config("RobertaForCausalLM", "RobertaConfig", **SMALL, is_decoder=True)
    with pytest.raises(ValueError, match="positions depend on its tokens"):
        tv.save_decoder(model, tmp_path / "net", max_length=32)
