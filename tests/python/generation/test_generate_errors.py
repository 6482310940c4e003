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


def in_place(layer):
    with torch.no_grad():
        layer.up_proj.weight.neg_()


def parameter(layer):
    layer.up_proj.weight = torch.nn.Parameter(-layer.up_proj.weight.detach())


def assigned(layer):
    layer.load_state_dict({name: -value for name, value in layer.state_dict().items()},
                          assign=True)


def new_bias(layer):
    layer.up_proj.bias = torch.nn.Parameter(torch.full((layer.up_proj.out_features,), 3.0))


def new_layer(layer):
    other = torch.nn.Linear(layer.up_proj.in_features, layer.up_proj.out_features, bias=False)
    other.weight = torch.nn.Parameter(-layer.up_proj.weight.detach())
    layer.up_proj = other


def hooked(layer):
    layer.register_forward_hook(lambda module, inputs, result: -5 * result)


CHANGES = (in_place, parameter, assigned, new_bias, new_layer, hooked)


@pytest.fixture
def lively():
    """A model whose tokens any layer changes."""
    model = decoder("llama")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4 if weight.dim() == 2 else 1)
    return model


@turns(3, group="changes")
@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_within_a_text(change, lively):
    """Of a loop that calls its engine alone."""
    ids = prompt(lively, 1, 5)["input_ids"]

    def text(generate, at):
        twin, count = copy.deepcopy(lively), [0]

        def act():
            count[0] += 1
            if count[0] == at:
                change(twin.model.layers[0].mlp)

        return generate(twin, act)

    for at in (1, 3, 5):
        want = text(lambda twin, act: twin.generate(ids, max_new_tokens=12, do_sample=False,
                                                    streamer=Takes(act)), at)
        got = text(lambda twin, act: tv.generate(twin, ids, 12, streamer=Takes(act)), at)
        assert torch.equal(got, want)


@turns(3, group="changes")
@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_between_texts(change, lively):
    ids = prompt(lively, 1, 5)["input_ids"]
    before = tv.generate(lively, ids, 12)
    change(lively.model.layers[0].mlp)
    after = tv.generate(lively, ids, 12)
    assert torch.equal(after, lively.generate(ids, max_new_tokens=12, do_sample=False))
    assert not torch.equal(after, before)


@turns(3, group="changes")
def test_hooks_of_one_model_are_not_anothers(lively):
    """A step is compiled for a class of models."""
    ids, other = prompt(lively, 1, 5)["input_ids"], copy.deepcopy(lively)
    hooked(other.model.layers[1].mlp)
    for model in (lively, other, lively):
        want = model.generate(ids, max_new_tokens=12, do_sample=False)
        assert torch.equal(tv.generate(model, ids, 12), want)


def masks():
    padded = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    return {"bool": padded.bool(), "float": padded.float().requires_grad_(), "int": padded.int(),
            "hole": torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]])}


@turns(2, group="masks")
@pytest.mark.parametrize("name", masks())
def test_masks_are_those_of_generate(name):
    model, mask = decoder("llama"), masks()[name]
    ids = prompt(model, 2, 5)["input_ids"]
    want = model.generate(ids, max_new_tokens=6, do_sample=False, attention_mask=mask)
    assert torch.equal(tv.generate(model, ids, 6, attention_mask=mask), want)


@turns(2, group="masks")
def test_padding_without_a_mask():
    """Where pad_token_id says what it is, and is no end of a text."""
    model = decoder("llama")
    ids = prompt(model, 2, 7)["input_ids"]
    ids[0, :3] = 7
    for given in ({}, {"pad_token_id": 7}, {"pad_token_id": 7, "eos_token_id": 7},
                  {"eos_token_id": 7}):
        want = model.generate(ids, max_new_tokens=6, do_sample=False, **given)
        assert torch.equal(tv.generate(model, ids, 6, **given), want)
    with pytest.raises(ValueError, match="end with padding .pad_token_id 7.* pad on the left"):
        tv.generate(model, ids.flip(1), 6, pad_token_id=7)


@pytest.mark.parametrize("change, message", [
    ({"attention_mask": torch.tensor([[2, 2, 2]])}, "got other values than 0, for padding, and 1"),
    ({"attention_mask": torch.tensor([[0.5, 1, 1]])}, "got other values than 0, for padding"),
    ({"attention_mask": torch.tensor([[float("nan"), 1, 1]])}, "got other values than 0"),
    ({"attention_mask": torch.ones(1, 3, device="meta")}, "attention_mask: got one on the device"),
    ({"input_ids": torch.ones(1, 3, dtype=torch.long, device="meta")}, "on the device meta, want"),
    ({"input_ids": torch.ones(1, 3, dtype=torch.long).to_sparse()}, "got torch.sparse_coo, want a"),
    ({"input_ids": torch.ones(0, 3, dtype=torch.long)}, r"got torch.int64 \[0, 3\], want integers"),
    ({"input_ids": torch.ones(1, 3, dtype=torch.uint8)}, "got torch.uint8 .*int64 or int32"),
])
def test_prompts_that_are_none(change, message):
    given = {"input_ids": torch.ones(1, 3, dtype=torch.long)} | change
    with pytest.raises(ValueError, match=message):
        tv.generate(decoder("llama"), max_new_tokens=4, **given)


@pytest.mark.parametrize("token", [97, -1])
def test_tokens_that_the_model_does_not_know(token):
    with pytest.raises(IndexError, match="embedding"):
        tv.generate(decoder("llama"), torch.tensor([[1, token, 3]]), 4)


def test_models_in_training_mode():
    """Their dropout is random, where they have any."""
    ids = torch.tensor([[5, 6, 7]])
    model = decoder("llama").train()
    want = model.generate(ids, max_new_tokens=4, do_sample=False)
    assert torch.equal(tv.generate(model, ids, 4), want)
    model.model.layers[1].self_attn.attention_dropout = 0.5
    with pytest.raises(ValueError, match=r"noise \(model.layers.1.self_attn\) .* model.eval\(\)"):
        tv.generate(model, ids, 4)
    model.model.layers[1].self_attn.attention_dropout = 0.0
    model.model.layers[0].mlp.router_jitter_noise = 0.5  # as Mixtral's
    with pytest.raises(ValueError, match=r"noise \(model.layers.0.mlp\) gives other tokens"):
        tv.generate(model, ids, 4)
    assert torch.equal(tv.generate(model.eval(), ids, 4), want)
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match=r"recomputes activations, .*call model.eval\(\) first"):
        tv.generate(model.train(), ids, 4)
    model = decoder("gpt2")
    model.transformer.h[1].mlp.dropout.train()
    with pytest.raises(ValueError, match=r"training mode, .* \(transformer.h.1.mlp.dropout\)"):
        tv.generate(model, ids, 4)
    model = decoder("llama")
    with pytest.raises(ValueError, match="on the device meta, which has no weights"):
        tv.generate(model.to("meta"), ids, 4)


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
    ("FalconForCausalLM", "FalconConfig", {**SMALL, "alibi": True, "initializer_range": 0.3}),
    ("Phi3ForCausalLM", "Phi3Config", {
        **SMALL, "original_max_position_embeddings": 64, "rope_scaling": LONG})])
def test_positions_are_those_of_generate(name, config, values):
    model, ids = of_config(name, config, **values), torch.randint(3, 99, (2, 7))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    for given in ({}, {"attention_mask": mask}):
        got = tv.generate(model, ids, 20, optimization_level=0, **given)
        assert torch.equal(got, model.generate(ids, max_new_tokens=20, do_sample=False, **given))


def test_positions_that_depend_on_tokens_are_not_saved(tmp_path):
    model = of_config("RobertaForCausalLM", "RobertaConfig", **SMALL, is_decoder=True)
    with pytest.raises(ValueError, match="positions depend on its tokens"):
        tv.save_decoder(model, tmp_path / "net", max_length=32)
