"""tv.generate with several steps a submission: the tokens of one step a submission."""

import types

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan._generate import generation

from marks import slow_but, turns
from workloads.decoders import decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

# Of a cache with every position, of windows that are kept whole, of both in turn.
CACHES = ("llama", "mistral", "gemma3")
SINGLE = 3  # the prompt, and two steps that are compared
DRAWN = {"do_sample": True, "draws": "device", "seed": 11, "temperature": 1.2, "top_k": 30,
         "top_p": 0.9, "repetition_penalty": 1.2}


class Collected(list):
    def put(self, tokens):
        self.append(tokens)

    def end(self):
        self.ended = True


def made(model, ids, count, together, **arguments):
    """Tokens, and what the report says."""
    report = {}
    tokens = tv.generate(model, ids, count, steps_per_submission=together, report=report,
                         **arguments)
    return tokens, report


def check(report, count: int, together: int):
    """Of `count` steps the first three are made one by one, the others in submissions."""
    calls = -(-(count - SINGLE) // together)
    assert report == {"steps": count, "calls": SINGLE + calls, "engine_calls": calls,
                      "submissions": calls, "reason": ""}


@turns(2)
@pytest.mark.parametrize("name", slow_but(("llama",), CACHES))
@pytest.mark.parametrize("choice", [{}, DRAWN], ids=["greedy", "drawn"])
def test_tokens_and_submissions(name, choice):
    model = decoder(name)
    ids = prompt(model, 3, 9)["input_ids"]
    want, report = made(model, ids, 24, 1, **choice)
    assert report == {"steps": 24, "calls": 24, "engine_calls": 21, "submissions": 21,
                      "reason": "steps_per_submission is 1"}
    for together in (4, 7, 64):
        got, report = made(model, ids, 24, together, **choice)
        assert torch.equal(got, want)
        check(report, 24, together)
    if not choice:
        assert torch.equal(want, model.generate(ids, max_new_tokens=24, do_sample=False))


@turns(4, group="submissions")
@pytest.mark.parametrize("name", slow_but(("gemma3",), CACHES))
def test_texts_that_end_at_different_tokens(name):
    """What was made behind an end is in no result and reaches no streamer."""
    model = decoder(name)
    ids = prompt(model, 3, 9)["input_ids"]
    free = model.generate(ids, max_new_tokens=24, do_sample=False)
    for at in (10, 14, 16, 30):
        ends = sorted({int(token) for token in free[:, at]})
        want = model.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=ends,
                              pad_token_id=0)
        got, report = made(model, ids, 24, 8, eos_token_id=ends, pad_token_id=0)
        assert torch.equal(got, want)
        added = want.shape[1] - ids.shape[1]
        assert added <= report["steps"] <= max(added + 7, SINGLE)
    streamer = Collected()
    end = int(free[0, 20])
    want = tv.generate(model, ids[:1], 24, eos_token_id=end)
    got = tv.generate(model, ids[:1], 24, eos_token_id=end, streamer=streamer,
                      steps_per_submission=8)
    assert torch.equal(got, want) and streamer.ended
    assert torch.equal(torch.cat([streamer[0][0], *streamer[1:]]), want[0])


@turns(4, group="submissions")
def test_padding():
    model = decoder("llama")
    given = prompt(model, 3, 9)
    for row, padding in enumerate((0, 4, 7)):
        given["input_ids"][row, :padding] = 0
        given["attention_mask"][row, :padding] = 0
    want = model.generate(**given, max_new_tokens=24, do_sample=False)
    got, report = made(model, given["input_ids"], 24, 5, attention_mask=given["attention_mask"])
    assert torch.equal(got, want)
    check(report, 24, 5)


@turns(4, group="submissions")
def test_integers_that_are_cut_to_32_bits():
    """The state's int64 tensors are copied at the border of each step, which is more than an
    engine's call."""
    model = decoder("llama")
    ids = prompt(model, 2, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=24, do_sample=False)
    got, report = made(model, ids, 24, 6, truncate_long_and_double=True)
    assert torch.equal(got, want)
    assert report["calls"] == report["steps"] == 24 and report["submissions"] == 0
    assert "PyTorch copies the int64 tensors" in report["reason"]


@turns(4, group="submissions")
def test_steps_that_need_the_host():
    model = decoder("llama")
    ids = prompt(model, 2, 9)["input_ids"]
    drawn = {"do_sample": True, "seed": 5, "top_k": 20}
    want = tv.generate(model, ids, 16, **drawn)
    got, report = made(model, ids, 16, 8, **drawn)
    assert torch.equal(got, want)
    assert report["calls"] == report["steps"] == 16 and report["submissions"] == 13
    assert "drawn by PyTorch's generator" in report["reason"]

    model = decoder("mistral")  # a window that slides
    ids = prompt(model, 1, 240)["input_ids"]
    want = model.generate(ids, max_new_tokens=8, do_sample=False)
    report = {}
    assert torch.equal(tv.generate(model, ids, 8, steps_per_submission=4, report=report), want)
    assert report["calls"] == 8 and report["engine_calls"] == report["submissions"] == 0
    assert "the model's Python runs in each step" in report["reason"]


@turns(4, group="submissions")
def test_an_engine_that_refuses(monkeypatch):
    """The steps are PyTorch's then, as many."""
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=16, do_sample=False)
    refused = []

    def refuses(call, count):
        refused.append(count)
        raise NotImplementedError("sizes that kernels cannot count")

    monkeypatch.setattr(generation, "_execute_call", refuses)
    assert torch.equal(tv.generate(model, ids, 16, steps_per_submission=5), want)
    assert refused == [5, 5, 3]


@turns(4, group="submissions")
@pytest.mark.parametrize("is_cpu, together", [(True, 1), (False, 8)])
def test_by_default(monkeypatch, is_cpu, together):
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=24, do_sample=False)
    monkeypatch.setattr(generation, "device_profile",
                        lambda device: types.SimpleNamespace(is_cpu=is_cpu))
    report = {}
    assert torch.equal(tv.generate(model, ids, 24, report=report), want)
    assert report["calls"] == SINGLE + -(-(24 - SINGLE) // together)


@turns(4, group="submissions")
def test_ahead_of_the_host(monkeypatch):
    """As on GPUs: several submissions before the host looks."""
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    free = model.generate(ids, max_new_tokens=24, do_sample=False)
    monkeypatch.setattr(generation, "_runs_ahead", lambda ids: True)
    assert torch.equal(tv.generate(model, ids, 24, steps_per_submission=3), free)
    streamer = Collected()
    end = int(free[0, 22])
    want = model.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=end,
                          pad_token_id=0)
    got = tv.generate(model, ids, 24, eos_token_id=end, pad_token_id=0, streamer=streamer,
                      steps_per_submission=3)
    assert torch.equal(got, want)
    assert torch.equal(torch.cat(streamer[1:]), want[0, 9:])


@pytest.mark.parametrize("count", [0, -1, 2.5, "8", True])
def test_bad_arguments(count):
    model = decoder("llama")
    with pytest.raises(ValueError, match="steps_per_submission: got .*, want 1 or more"):
        tv.generate(model, torch.ones(1, 3, dtype=torch.long), steps_per_submission=count)
