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
         {"begin_suppress_tokens": "first"}, {"bad_words_ids": "end"},
         {"bad_words_ids": "end", "eos_token_id": "end"},
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
    if "bad_words_ids" in asked:
        asked["bad_words_ids"] = [[asked["bad_words_ids"]]]
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


# For each setting of transformers values other than its default.
VALUES = {
    "max_length": [16, 21], "max_new_tokens": [5], "min_length": [15], "min_new_tokens": [4],
    "early_stopping": [True, "never"], "max_time": [100.0], "stop_strings": ["a"],
    "do_sample": [True], "num_beams": [2], "use_mtp": [True], "use_cache": [False],
    "cache_implementation": ["static", "dynamic", "sliding_window", "hybrid", "offloaded",
                             "offloaded_static", "quantized", "paged", "none such"],
    "cache_config": [{"backend": "quanto", "nbits": 2}], "max_cache_len": [5, 500],
    "temperature": [0.3], "top_k": [3], "top_p": [0.4], "min_p": [0.3], "top_h": [0.3],
    "typical_p": [0.4], "epsilon_cutoff": [0.2], "eta_cutoff": [0.2],
    "repetition_penalty": [1.7], "encoder_repetition_penalty": [1.7], "length_penalty": [2.0],
    "no_repeat_ngram_size": [2], "bad_words_ids": [[[35]], [[35, 35]], [[35], [200]]],
    "renormalize_logits": [True], "forced_bos_token_id": [3], "forced_eos_token_id": [3],
    "remove_invalid_values": [True], "exponential_decay_length_penalty": [(2, 1.5)],
    "suppress_tokens": [[35]], "begin_suppress_tokens": [[35]],
    "sequence_bias": [[[[35], -9.0]]], "token_healing": [True], "guidance_scale": [1.7],
    "watermarking_config": [{"bias": 2.0}], "num_return_sequences": [2],
    "output_attentions": [True], "output_hidden_states": [True], "output_scores": [True],
    "output_logits": [True], "return_dict_in_generate": [True], "pad_token_id": [7],
    "bos_token_id": [7], "eos_token_id": [35, -1, [35, 3]], "encoder_no_repeat_ngram_size": [2],
    "decoder_start_token_id": [5], "is_assistant": [True], "num_assistant_tokens": [3],
    "num_assistant_tokens_schedule": ["constant"], "assistant_confidence_threshold": [0.9],
    "prompt_lookup_num_tokens": [3], "max_matching_ngram_size": [2], "assistant_early_exit": [1],
    "assistant_lookbehind": [3], "target_lookbehind": [3], "assistant_ensemble_weight": [0.5],
    "speculation_type": ["any"], "disable_compile": [True], "continuous_batching_config": [{}],
    "compile_config": [transformers.CompileConfig()], "low_memory": [True],
    "penalty_alpha": [0.6], "dola_layers": ["low"], "diversity_penalty": [0.5],
    "num_beam_groups": [2], "constraints": [[1]], "force_words_ids": [[[35]]],
    "prefill_chunk_size": [3]}
# What says where a config comes from.
ABOUT_THE_FILE = {"_from_model_config", "transformers_version"}
REFUSED = {"no_repeat_ngram_size", "forced_eos_token_id", "forced_bos_token_id", "num_beams",
           "num_return_sequences", "guidance_scale", "sequence_bias", "stop_strings", "max_time",
           "encoder_repetition_penalty", "exponential_decay_length_penalty", "penalty_alpha",
           "remove_invalid_values", "renormalize_logits", "watermarking_config", "dola_layers",
           "use_mtp", "is_assistant", "return_dict_in_generate", "constraints", "force_words_ids",
           "token_healing", "encoder_no_repeat_ngram_size"}
FEW = ("max_new_tokens", "max_length", "cache_implementation", "bad_words_ids", "eos_token_id")


def test_there_is_a_value_for_every_setting():
    assert {*vars(transformers.GenerationConfig())} <= {*VALUES, *ABOUT_THE_FILE}


@pytest.mark.parametrize("samples", [False, True])
@pytest.mark.parametrize("name", slow_but(FEW, VALUES))
def test_every_setting_is_taken_or_refused(model, name, samples):
    """The tokens of model.generate, or an error that names the setting."""
    ids = prompt(model, 1, 9)["input_ids"]
    for value in VALUES[name]:
        config = transformers.GenerationConfig(pad_token_id=0, do_sample=samples)
        setattr(config, name, value)
        model.generation_config = config
        given = {} if name in ("max_length", "max_new_tokens") else {"max_new_tokens": NEW}
        torch.manual_seed(5)
        try:
            got = tv.generate(model, ids, **given, seed=5)
        except ValueError as error:
            assert name in str(error)
            assert "docs/generation.md" in str(error) or "want tokens of 97" in str(error)
            assert name in REFUSED or name in ("cache_implementation", "bad_words_ids") or (
                samples and name in request._OF_SAMPLING)
            continue
        assert name not in REFUSED
        assert torch.equal(got, model.generate(ids, **given)), value


@pytest.mark.parametrize("value", ["quantized", "offloaded", "paged", "none such"])
def test_caches_that_there_are_not(model, value):
    model.generation_config.cache_implementation = value
    with pytest.raises(ValueError, match=f"generation_config.cache_implementation is '{value}'"):
        tv.generate(model, prompt(model, 1, 9)["input_ids"], NEW)


def test_how_many_tokens_nobody_says(model):
    """20, or as many as the model can read; a text that is as long as it may be is an error."""
    for length in (9, 250):
        ids = prompt(model, 1, length)["input_ids"]
        assert torch.equal(tv.generate(model, ids), model.generate(ids))
    model.generation_config.max_length = 9
    with pytest.raises(ValueError, match="max_length: got 9 for a prompt of 250 tokens: give"):
        tv.generate(model, ids)
    model.generation_config.max_new_tokens = 2.5
    with pytest.raises(ValueError, match="generation_config.max_new_tokens: got 2.5, want 1 or mo"):
        tv.generate(model, ids)


@pytest.mark.parametrize("words, message", [
    ([[3, 4]], "got ..3, 4.., want a list of words of one token each.*use model.generate"),
    ([3], "got .3., want a list of words"), ("a", "got 'a', want a list of words"),
    ([[97]], "bad_words_ids has .97., want tokens of 97"),
    ([[-1]], "bad_words_ids has .-1., want tokens of 97")])
def test_bad_words_of_other_kinds(model, words, message):
    with pytest.raises(ValueError, match=message):
        tv.generate(model, prompt(model, 1, 9)["input_ids"], NEW, bad_words_ids=words)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_there_is_not(model, name):
    ids = prompt(model, 1, 9)["input_ids"]
    setattr(model.generation_config, name, VALUES[name][0])
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
    assert {*request._KINDS, *request._NEUTRAL, *request._OF_SAMPLING, *request._OTHERS} <= {
        *VALUES, *ABOUT_THE_FILE}
    assert request._NEUTRAL.keys() & request._OTHERS == set()


def test_what_a_checkpoint_has(model):
    """Negative padding of old files, and what no table has."""
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=2, do_sample=False)
    model.generation_config.pad_token_id = -1
    model.generation_config.chat_format = "chatml"
    assert torch.equal(tv.generate(model, ids, 2), want)
