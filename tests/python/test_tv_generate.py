"""tv.generate: the tokens of transformers' own generate."""

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan import compilations, generation

from marks import slow_but
from seeds import share_of
from workloads.decoders import decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


class Collected(list):
    """A streamer."""

    ended = False

    def put(self, tokens):
        self.append(tokens)

    def end(self):
        self.ended = True


@pytest.mark.parametrize("name", slow_but(("llama",), ("llama", "gpt2", "qwen3", "gemma2")))
def test_greedy_and_sampling(name):
    model = decoder(name)
    ids = prompt(model, 2, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=24, do_sample=False)
    streamer = Collected()
    assert torch.equal(tv.generate(model, ids, 24, streamer=streamer), want)
    assert streamer.ended
    assert torch.equal(torch.cat([streamer[0], torch.stack(streamer[1:], 1)], 1), want)

    drawn = {"do_sample": True, "temperature": 0.8, "top_k": 20, "top_p": 0.9,
             "repetition_penalty": 1.3}
    torch.manual_seed(5)
    want = model.generate(ids, max_new_tokens=24, **drawn)
    assert torch.equal(tv.generate(model, ids, 24, seed=5, **drawn), want)


@pytest.fixture
def calls(monkeypatch):
    """The forward calls that went through the model's Python."""
    made = []
    call = generation._Steps._call

    def counted(self):
        made.append(self)
        call(self)

    monkeypatch.setattr(generation._Steps, "_call", counted)
    return made


STEADY, SLIDING = ("gpt2", "llama", "phi"), ("mistral", "gemma3")
DRAWS = ({"top_k": 5}, {"top_p": 0.7}, {"temperature": 1.7}, {})


@pytest.mark.parametrize("name", slow_but(share_of(STEADY, 3), STEADY))
def test_steps_are_called_without_the_model(name, calls):
    model = decoder(name)
    for seed in (1, 2):  # other tensors each time
        ids = prompt(model, 2, 9, seed)["input_ids"]
        want = model.generate(ids, max_new_tokens=24, do_sample=False, repetition_penalty=1.3)
        calls.clear()
        assert torch.equal(tv.generate(model, ids, 24, repetition_penalty=1.3), want)
        assert len(calls) == 3  # the prompt, and two steps that were the same
    (record,) = compilations.compilations()[-1:]
    assert len(record.engines) == 1 and record.coverage == 1, record.native


@pytest.mark.parametrize("name", slow_but(share_of(SLIDING, 4), SLIDING))
def test_a_window_that_is_passed(name, calls):
    """What the next step computes depends on more than tensors: the model runs each time."""
    model = decoder(name)
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=32, do_sample=False)
    assert torch.equal(tv.generate(model, ids, 32), want)
    assert len(calls) == 32


def test_weights_that_change_between_calls():
    model = decoder("gpt2")
    ids = prompt(model, 1, 9)["input_ids"]
    for _ in range(2):
        want = model.generate(ids, max_new_tokens=12, do_sample=False)
        assert torch.equal(tv.generate(model, ids, 12), want)
        with torch.no_grad():
            model.transformer.h[0].attn.c_attn.weight.neg_()


@pytest.mark.parametrize("drawn", slow_but(share_of(DRAWS, 4), DRAWS))
def test_draws(drawn):
    """Each by itself; sequences end where they do in transformers."""
    model = decoder("gpt2")
    ids = prompt(model, 3, 9)["input_ids"]
    torch.manual_seed(3)
    want = model.generate(ids, max_new_tokens=24, do_sample=True, eos_token_id=[5, 7, 11],
                          pad_token_id=0, **{"top_k": 0} | drawn)
    got = tv.generate(model, ids, 24, do_sample=True, seed=3, eos_token_id=[5, 7, 11],
                      pad_token_id=0, **drawn)
    assert torch.equal(got, want)


def test_padding_and_ends():
    model = decoder("llama")
    given = prompt(model, 3, 9)
    for row, padding in enumerate((0, 4, 7)):
        given["input_ids"][row, :padding] = 0
        given["attention_mask"][row, :padding] = 0
    free = model.generate(**given, max_new_tokens=24, do_sample=False)
    end = int(free[0, 14])  # ends the rows at several places, or not
    want = model.generate(**given, max_new_tokens=24, do_sample=False, eos_token_id=end,
                          pad_token_id=0)
    got = tv.generate(model, given["input_ids"], 24, attention_mask=given["attention_mask"],
                      eos_token_id=end, pad_token_id=0)
    assert torch.equal(got, want)


def test_two_generations_in_turn():
    """An interrupted one leaves nothing behind."""
    model = decoder("llama")
    ids = prompt(model, 1, 5)["input_ids"]
    want = model.generate(ids, max_new_tokens=6, do_sample=False)

    class Interrupts:
        def put(self, tokens):
            if tokens.dim() == 1:
                assert torch.equal(tv.generate(model, ids, 6), want)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tv.generate(model, ids, 6, streamer=Interrupts())
    assert torch.equal(tv.generate(model, ids, 6), want)


@pytest.mark.parametrize("arguments,message", [
    (([[1, 2]], 4), "input_ids: got list, want integers"),
    ((torch.ones(3, dtype=torch.long), 4), r"got torch.int64 \[3\], want integers"),
    ((torch.ones(1, 3), 4), "got torch.float32"),
    ((torch.ones(1, 0, dtype=torch.long), 4), r"got torch.int64 \[1, 0\]"),
    ((torch.ones(1, 3, dtype=torch.long), 0), "max_new_tokens: got 0, want 1 or more"),
    ((torch.ones(1, 250, dtype=torch.long), 7), "want at most 256 together"),
])
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tv.generate(decoder("llama"), *arguments)


def test_other_bad_arguments():
    model, ids = decoder("llama"), torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="pad on the left"):
        tv.generate(model, ids, attention_mask=torch.tensor([[1, 1, 0]]))
    with pytest.raises(ValueError, match=r"attention_mask: got \[1, 2\], want the shape"):
        tv.generate(model, ids, attention_mask=torch.ones(1, 2))
    with pytest.raises(ValueError, match="want a decoder with attention"):
        tv.generate(decoder("t5"), ids)
    with pytest.raises(ValueError, match="want a decoder with attention"):
        tv.generate(decoder("mamba"), ids)
    with pytest.raises(ValueError, match="got Linear, want a causal language model"):
        tv.generate(torch.nn.Linear(2, 2), ids)
    with pytest.raises(ValueError, match="min_blok_size"):
        tv.generate(model, ids, min_blok_size=3)
