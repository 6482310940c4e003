"""Other ways that transformers' `generate` and tv.generate are called: eager's tokens, and their
logits within what is promised of 16 bits."""

import contextlib
import copy
import threading

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import slow_but, turns
from seeds import share_of
from workloads.decoders import WITH_IMAGES, decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

STEPS = 24
STATIC = {"cache_implementation": "static"}


def compiled(model):
    """A copy whose forward call is compiled."""
    fast = copy.deepcopy(model)
    fast.forward = torch.compile(fast.forward, backend="vulkan")
    return fast


def generated(model, given, **arguments):
    torch.manual_seed(3)
    return model.generate(**given, **{"max_new_tokens": STEPS, "do_sample": False} | arguments)


# What of model.generate no other test has: (model, prompt's length, arguments).
WAYS = {
    "prompt lookup": ("llama", 7, {"prompt_lookup_num_tokens": 3}),
    "quantised cache": ("llama", 7, {"cache_implementation": "quantized",
                                     "cache_config": {"backend": "fp8"}}),
    "hybrid cache": ("gemma3", 7, {"cache_implementation": "hybrid"}),
    "sliding window": ("mistral", 7, {"cache_implementation": "sliding_window"}),
    "chunks": ("llama", 13, {"prefill_chunk_size": 4}),
    "chunks, static": ("llama", 13, {"prefill_chunk_size": 4} | STATIC),
    "sampling": ("llama", 7, {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 1.3}),
    "sampling, static": ("llama", 7, {"do_sample": True, "top_k": 20} | STATIC),
    "beams, static": ("llama", 7, {"num_beams": 3} | STATIC),
}


@turns(4, group="ways")
@pytest.mark.parametrize("way", WAYS)
def test_tokens(way):
    name, length, arguments = WAYS[way]
    model = decoder(name)
    given = prompt(model, 2 if "num_beams" in arguments else 1, length)
    want = generated(model, given, **arguments)
    assert torch.equal(generated(compiled(model), given, **arguments), want)
    assert any(record.engines for record in compilations.compilations())


@turns(4, group="ways")
@pytest.mark.parametrize("both", [False, True], ids=["assisted", "assistant compiled"])
def test_assisted_decoding(both):
    """The assistant's tokens are taken where the model would choose them."""
    model, assistant = decoder("llama"), decoder("llama", seed=2)
    given = prompt(model)
    want = generated(model, given)
    assert torch.equal(generated(model, given, assistant_model=assistant), want)
    assistant = compiled(assistant) if both else assistant
    assert torch.equal(generated(compiled(model), given, assistant_model=assistant), want)


@turns(4, group="ways")
@pytest.mark.parametrize("arguments", [{}, STATIC], ids=["dynamic", "static"])
def test_inference_mode(arguments):
    model = decoder("llama")
    given = prompt(model)
    want = generated(model, given)
    with torch.inference_mode():
        assert torch.equal(generated(compiled(model), given, **arguments), want)
        assert torch.equal(tv.generate(model, given["input_ids"], STEPS), want)


def test_the_loop_on_compiled_models():
    model = decoder("llama")
    given = prompt(model)
    want = generated(model, given)
    ids = given["input_ids"]
    assert torch.equal(tv.generate(torch.compile(model, backend="vulkan"), ids, STEPS), want)
    assert torch.equal(tv.generate(compiled(model), ids, STEPS), want)


@turns(4, group="ways")
def test_the_loop_in_two_threads():
    """Both have the same step, each its own cache."""
    model = decoder("llama")
    texts = [prompt(model, 1, length)["input_ids"] for length in (5, 9)]
    want = [generated(model, {"input_ids": text}) for text in texts]
    got = [[], []]

    def work(place):
        with contextlib.suppress(Exception):  # fewer texts then
            for _ in range(3):
                got[place].append(tv.generate(model, texts[place], STEPS))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(2):
        assert len(got[place]) == 3
        assert all(torch.equal(tokens, want[place]) for tokens in got[place])


@turns(2, group="images")
@pytest.mark.parametrize("arguments", [{}, STATIC], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", WITH_IMAGES)
def test_text_about_images(name, arguments):
    model = decoder(name)
    given = prompt(model)
    want = generated(model, given, **arguments)
    other = given | {"pixel_values": given["pixel_values"].flip(-1)}
    assert not torch.equal(generated(model, other, **arguments), want), "it does not look"
    fast = compiled(model)
    assert torch.equal(generated(fast, given, **arguments), want)
    assert torch.equal(generated(fast, other, **arguments), generated(model, other, **arguments))


# Of the largest logit; docs/generation.md states them.
LIMITS = {torch.float16: 5e-3, torch.bfloat16: 4e-2}
HALVES = [(name, dtype) for name in ("llama", "qwen3", "gemma2", "gpt2", "falcon")
          for dtype in LIMITS]


@pytest.mark.parametrize("name,dtype", slow_but(share_of(HALVES, 5), HALVES, rows=True))
def test_logits_in_16_bits(name, dtype):
    """Of a prompt, and of a step behind it, beside the same weights in float64."""
    model = decoder(name).to(dtype)
    exact, fast = copy.deepcopy(model).double(), compiled(model)
    ids = prompt(model, 1, 24)["input_ids"]

    def logits(of):
        arguments = {"max_new_tokens": 1, "do_sample": False, "output_logits": True,
                     "return_dict_in_generate": True} | STATIC
        return [of.generate(text, **arguments).logits[0].double() for text in (ids[:, :-1], ids)]

    def step(of):
        """Of the last token, on the cache that the others have left."""
        cache = transformers.StaticCache(config=of.config, max_cache_len=32)
        takes = "cache" if "cache" in type(of).forward.__code__.co_varnames else "past_key_values"
        with torch.no_grad():
            of(ids[:, :-1], **{takes: cache})
            return of(ids[:, -1:], **{takes: cache}).logits[:, -1].double()

    for got, want in zip([*logits(fast), step(fast)], [*logits(exact), step(exact)], strict=True):
        error = float((got - want).abs().max() / want.abs().max())
        assert error < LIMITS[dtype], error
