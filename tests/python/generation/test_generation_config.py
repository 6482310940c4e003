"""tv.generate takes what a model's generation_config asks for, or refuses it."""

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan._generate import generation, request

from marks import slow_but
from seeds import share_of
from workloads.decoders import decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

NEW = 12
# What takes the place of "end": a token that greedy choice comes to.
TAKEN = ({"repetition_penalty": 1.5}, {"suppress_tokens": "end"},
         {"begin_suppress_tokens": "first"},
         {"eos_token_id": "end", "min_new_tokens": 6}, {"eos_token_id": "end", "min_length": 15},
         {"eos_token_id": "end", "min_length": 20, "min_new_tokens": 2},
         {"eos_token_id": "end", "min_length": 20, "min_new_tokens": 0},
         {"eos_token_id": "end", "min_length": 3, "suppress_tokens": [1, 500, -3]},
         {"do_sample": True}, {"do_sample": True, "temperature": 1.7, "top_k": 7},
         {"do_sample": True, "top_p": 0.8, "top_k": 0}, {"do_sample": True, "min_p": 0.4},
         {"do_sample": True, "repetition_penalty": 1.3, "suppress_tokens": "end"},
         {"temperature": 0.1, "top_k": 3, "top_p": 0.2, "typical_p": 0.5, "num_beams": 1})


@pytest.fixture
def model():
    return decoder("llama")


def placed(model, ids, asked):
    free = model.generate(ids, max_new_tokens=NEW, do_sample=False)
    tokens = {"end": int(free[0, -NEW + 3]), "first": int(free[0, -NEW])}
    asked = {name: tokens.get(value, value) if isinstance(value, str) else value
             for name, value in asked.items()}
    return asked | {"suppress_tokens": [asked["suppress_tokens"]]} if isinstance(
        asked.get("suppress_tokens"), int) else asked


@pytest.mark.parametrize("where", ["config", "arguments"])
@pytest.mark.parametrize("asked", TAKEN)
def test_what_is_asked_for(model, asked, where):
    """The tokens of model.generate."""
    ids = prompt(model, 2, 9)["input_ids"]
    asked = placed(model, ids, asked)
    if "begin_suppress_tokens" in asked:
        asked["begin_suppress_tokens"] = [asked["begin_suppress_tokens"]]
    given = {}
    if where == "config":
        for name, value in asked.items():
            setattr(model.generation_config, name, value)
    else:
        given = {name: value for name, value in asked.items()
                 if name not in ("typical_p", "num_beams")}
    torch.manual_seed(5)
    want = model.generate(ids, max_new_tokens=NEW, **given)
    assert torch.equal(tv.generate(model, ids, NEW, seed=5, **given), want)


CHUNKED = ("llama", "gpt2", "mistral")


@pytest.mark.parametrize("name", slow_but(share_of(CHUNKED, 3), CHUNKED))
def test_a_prompt_in_chunks(name, monkeypatch):
    """Through the graphs of prompts; with padding in front, too, and nothing is drawn for them."""
    model, lengths = decoder(name), []
    ids = prompt(model, 2, 33)["input_ids"]
    mask = torch.ones_like(ids)
    mask[0, :11] = 0
    compiled = generation._compiled

    def counted(*arguments):
        step = compiled(*arguments)

        def call(model, ids, *others):
            lengths.append(ids.shape[1])
            return step(model, ids, *others)

        return call

    monkeypatch.setattr(generation, "_compiled", counted)
    model.generation_config.prefill_chunk_size = 8
    for asked in ({}, {"attention_mask": mask},
                  {"do_sample": True, "top_k": 20, "repetition_penalty": 1.3}):
        torch.manual_seed(5)
        want = model.generate(ids, max_new_tokens=NEW, **asked)
        lengths.clear()
        assert torch.equal(tv.generate(model, ids, NEW, seed=5, **asked), want)
        assert lengths[:6] == [8, 8, 8, 8, 1, 1]
    model.generation_config.prefill_chunk_size = None
    lengths.clear()
    torch.manual_seed(5)
    assert torch.equal(tv.generate(model, ids, NEW, seed=5, prefill_chunk_size=20, **asked), want)
    assert lengths[:3] == [20, 13, 1]


def test_how_to_sample_says_nothing_where_nothing_is_sampled(model):
    ids = prompt(model, 2, 9)["input_ids"]
    for name, value in (("temperature", 0.0), ("top_k", -1), ("top_p", 1.5)):
        setattr(model.generation_config, name, value)
    want = model.generate(ids, max_new_tokens=NEW, do_sample=False)
    assert torch.equal(tv.generate(model, ids, NEW), want)
    with pytest.raises(ValueError, match="temperature"):
        tv.generate(model, ids, NEW, do_sample=True)


def test_arguments_come_before_the_config(model):
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=NEW)
    for name, value, given in (("repetition_penalty", 1.5, 1.0), ("do_sample", True, False),
                               ("suppress_tokens", want[0, 9:].tolist(), [])):
        setattr(model.generation_config, name, value)
        assert torch.equal(tv.generate(model, ids, NEW, **{name: given}), want)
        setattr(model.generation_config, name, None)


def test_padding_is_not_repeated(model):
    """The penalty is not for padding, whatever token that is."""
    given = prompt(model, 2, 9)
    free = model.generate(**given, max_new_tokens=NEW, do_sample=False)
    given["input_ids"][1, :5] = free[1, 9]
    given["attention_mask"][1, :5] = 0
    want = model.generate(**given, max_new_tokens=NEW, do_sample=False, repetition_penalty=3.0)
    got = tv.generate(model, given["input_ids"], NEW, attention_mask=given["attention_mask"],
                      repetition_penalty=3.0)
    assert torch.equal(got, want)


REFUSED = {"no_repeat_ngram_size": 2, "bad_words_ids": [[3]], "forced_eos_token_id": 3,
           "forced_bos_token_id": 3, "num_beams": 3, "num_return_sequences": 2,
           "guidance_scale": 1.5, "sequence_bias": [[[3], 2.0]], "encoder_repetition_penalty": 1.2,
           "exponential_decay_length_penalty": (2, 1.1), "remove_invalid_values": True,
           "stop_strings": ["a"], "max_time": 3.0, "penalty_alpha": 0.6, "renormalize_logits": True,
           "watermarking_config": {"bias": 2.0}, "dola_layers": "low"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_there_is_not(model, name):
    ids = prompt(model, 1, 9)["input_ids"]
    setattr(model.generation_config, name, REFUSED[name])
    with pytest.raises(ValueError, match=f"generation_config.{name} is .*set it to None, or comp"):
        tv.generate(model, ids, NEW)


@pytest.mark.parametrize("name,value", [("typical_p", 0.5), ("epsilon_cutoff", 0.1),
                                        ("eta_cutoff", 0.1), ("prompt_lookup_num_tokens", 2)])
def test_what_there_is_not_for_sampling(model, name, value):
    ids = prompt(model, 1, 9)["input_ids"]
    setattr(model.generation_config, name, value)
    with pytest.raises(ValueError, match=f"generation_config.{name} is "):
        tv.generate(model, ids, NEW, do_sample=True)
    want = model.generate(ids, max_new_tokens=2, do_sample=False)
    assert torch.equal(tv.generate(model, ids, 2), want)


def test_values_of_the_config_are_checked(model):
    ids = prompt(model, 1, 9)["input_ids"]
    model.generation_config.repetition_penalty = -1.0
    with pytest.raises(ValueError, match="model.generation_config.repetition_penalty: got -1.0"):
        tv.generate(model, ids, NEW)


def test_every_setting_of_transformers_is_known():
    """A new one is refused where a config sets it, until it is known here."""
    known = {*request._KINDS, *request._NEUTRAL, *request._OF_SAMPLING, *request._OTHERS, *REFUSED}
    known |= {"constraints", "force_words_ids"}
    assert {*vars(transformers.GenerationConfig())} <= known
    assert request._NEUTRAL.keys() & request._OTHERS == set()


def test_what_a_checkpoint_has(model):
    """Negative padding of old files, and what no table has."""
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=2, do_sample=False)
    model.generation_config.pad_token_id = -1
    model.generation_config.chat_format = "chatml"
    assert torch.equal(tv.generate(model, ids, 2), want)
