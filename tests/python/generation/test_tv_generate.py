"""tv.generate: the tokens of transformers' own generate."""

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan import compilations
from torch_vulkan._generate import generation, step
from torch_vulkan._torch import philox

from marks import slow_but, turns
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


@pytest.mark.parametrize("batch,together", slow_but([(2, 4)], [(2, 4), (1, 1)], rows=True))
def test_tokens_stream_to_a_callable(batch, together):
    """The new ones of each step, as they come, and those up to an end alone."""
    model = decoder("llama")
    ids = prompt(model, batch, 9)["input_ids"]
    end = int(model.generate(ids, max_new_tokens=12, do_sample=False)[0, -2])
    want = model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=end,
                          pad_token_id=0)
    taken = []
    got = tv.generate(model, ids, 12, eos_token_id=end, pad_token_id=0, streamer=taken.append,
                      steps_per_submission=together)
    assert torch.equal(got, want)
    assert {(tokens.dtype, tokens.shape, tokens.device.type) for tokens in taken} == {
        (torch.int64, (batch,), "cpu")}
    assert torch.equal(torch.stack(taken, 1), want[:, 9:])


@turns(2)
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_truncated(name):
    """Tokens and positions are int32 in engines, and int64 for callers."""
    model = decoder(name)
    ids = prompt(model, 2, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=12, do_sample=False)
    compilations.clear()
    got = tv.generate(model, ids, 12, truncate_long_and_double=True)
    assert got.dtype == torch.int64 and torch.equal(got, want)
    assert any(c.engines for c in compilations.compilations())

    torch.manual_seed(5)
    want = model.generate(ids, max_new_tokens=12, do_sample=True, top_k=20)
    got = tv.generate(model, ids, 12, seed=5, do_sample=True, top_k=20,
                      truncate_long_and_double=True)
    assert torch.equal(got, want)


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
    model = decoder(name)
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=32, do_sample=False)
    assert torch.equal(tv.generate(model, ids, 32), want)
    assert len(calls) == 3


@pytest.mark.parametrize("name", slow_but(share_of(SLIDING, 4), SLIDING))
def test_a_window_much_shorter_than_the_text(name, calls):
    """Its cache moves, by a number in Python: the model runs each time."""
    model = decoder(name)
    ids = prompt(model, 1, 120)["input_ids"]
    want = model.generate(ids, max_new_tokens=12, do_sample=False)
    assert torch.equal(tv.generate(model, ids, 12), want)
    assert len(calls) == 12


@pytest.fixture
def engine_calls(monkeypatch):
    """The steps that were calls of an engine alone."""
    made = []
    call = generation._call_engine

    def counted(*arguments):
        made.append(arguments)
        call(*arguments)

    monkeypatch.setattr(generation, "_call_engine", counted)
    return made


SAMPLED = {"do_sample": True, "temperature": 0.8, "top_k": 20, "top_p": 0.9,
           "repetition_penalty": 1.3}


@turns(3)
@pytest.mark.parametrize("choice", [{}, SAMPLED, SAMPLED | {"draws": "device"}])
def test_a_step_is_one_engine(choice, engine_calls):
    model = decoder("llama")
    tv.generate(model, prompt(model, 2, 9)["input_ids"], 16, steps_per_submission=1, **choice)
    assert len(engine_calls) == 16 - 3


@turns(2, group="device")
def test_an_engine_that_refuses(monkeypatch):
    """The step is PyTorch's then, and made once."""
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    want = model.generate(ids, max_new_tokens=16, do_sample=False)
    refused = []

    def refuses(call, count):
        refused.append(call)
        raise NotImplementedError("sizes that kernels cannot count")

    monkeypatch.setattr(generation, "_execute_call", refuses)
    assert torch.equal(tv.generate(model, ids, 16, steps_per_submission=1), want)
    assert len(refused) == 16 - 3


@turns(2)
@pytest.mark.parametrize("streams", [False, True])
def test_steps_ahead_of_the_host(streams, monkeypatch):
    """As on GPUs: what was computed beyond the end of a text is in no result."""
    model = decoder("llama")
    ids = prompt(model, 3, 9)["input_ids"]
    if streams:
        ids = ids[:1]
    free = model.generate(ids, max_new_tokens=24, do_sample=False)
    steps = []
    monkeypatch.setattr(generation, "_runs_ahead", lambda ids: True)
    following = generation._Steps.next
    monkeypatch.setattr(generation._Steps, "next",
                        lambda self, most: steps.append(self) or following(self, most))
    assert torch.equal(tv.generate(model, ids, 24), free)
    for at in (9, 14, 16, 17, 30):
        ends = sorted({int(token) for token in free[:, at]})
        want = model.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=ends,
                              pad_token_id=0)
        steps.clear()
        streamer = Collected() if streams else None
        got = tv.generate(model, ids, 24, eos_token_id=ends, pad_token_id=0, streamer=streamer,
                          steps_per_submission=1)
        assert torch.equal(got, want)
        added = want.shape[1] - ids.shape[1]
        assert len(steps) == min(-(-added // 8) * 8, 24)
        if streams:
            assert torch.equal(torch.cat(streamer[1:]), want[0, 9:])


@turns(2, group="device")
def test_draws_of_the_device():
    """The seed and the place say what is drawn; the rest is as transformers has it."""
    model = decoder("gpt2")
    ids = prompt(model, 3, 9)["input_ids"]
    drawn = {"do_sample": True, "temperature": 1.3, "top_k": 30, "top_p": 0.9}
    got = tv.generate(model, ids, 12, seed=1 << 40 | 7, draws="device", **drawn)
    assert torch.equal(tv.generate(model, ids, 12, seed=1 << 40 | 7, draws="device", **drawn), got)
    assert not torch.equal(tv.generate(model, ids, 12, seed=8, draws="device", **drawn), got)
    assert torch.equal(tv.generate(model, ids[:2], 12, seed=1 << 40 | 7, draws="device", **drawn),
                       got[:2])
    warpers = step.Choice("device", 1.3, 30, 0.9, 0.0, 1.0, False).processors()
    text = ids
    for _ in range(12):
        with torch.no_grad():
            scores = model(text).logits[:, -1]
        for warper in warpers:
            scores = warper(None, scores)
        words, *_ = philox.words((torch.arange(scores.shape[1]), torch.arange(3)[:, None],
                                  torch.tensor(text.shape[1]), 0), (7, 1 << 8))
        noise = -torch.log1p(-(words.double() + 0.5) / 2 ** 32)
        token = (scores.softmax(-1) / noise).argmax(-1)
        text = torch.cat([text, token[:, None]], 1)
    assert torch.equal(got, text)


@pytest.mark.parametrize("counter,key,want", [  # the known answers of the authors' Random123
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
])
def test_philox(counter, key, want):
    def tensors(words):
        return tuple(torch.tensor([word]) for word in words)

    fast = torch.compile(philox.words, backend="vulkan", options={"min_block_size": 1})
    for words in (philox.words, fast):
        assert tuple(int(word) for word in words(tensors(counter), tensors(key))) == want
    (record,) = compilations.compilations()[-1:]
    assert record.coverage == 1, record.native


def test_exponential_draws():
    words = torch.tensor([0, 1, 1 << 31, (1 << 32) - 1])
    drawn = philox.exponential(words)
    assert bool((drawn > 0).all())
    want = -torch.log1p(-(words.double() + 0.5) / 2 ** 32)
    torch.testing.assert_close(drawn[:3].double(), want[:3], rtol=1e-6, atol=0)
    assert drawn[3] > 16  # or infinite: never the least of several


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
                      pad_token_id=0, **{"top_k": 0} | drawn)
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


def test_no_token_ends_a_text(monkeypatch):
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    free = model.generate(ids, max_new_tokens=6, do_sample=False)
    monkeypatch.setattr(model.generation_config, "eos_token_id", int(free[0, 11]))
    monkeypatch.setattr(model.generation_config, "pad_token_id", None)
    assert torch.equal(tv.generate(model, ids, 6, eos_token_id=[]), free)


def test_steps_that_were_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(generation, "_steps", type(generation._steps)())
    monkeypatch.setattr(generation, "_MOST_STEPS", 2)

    def made(temperature):
        choice = step.Choice("torch", temperature, 0, 1.0, 0.0, 1.0, False)
        return generation._compiled(object, choice, {})

    first, second = made(0.1), made(0.2)
    assert made(0.1) is first
    made(0.3)
    assert len(generation._steps) == 2
    assert made(0.1) is first
    assert made(0.2) is not second


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

        def end(self):
            pass

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
    for name, what in (("t5", "has an encoder"), ("mamba", "has no attention"),
                       ("llava", "reads more than text")):
        with pytest.raises(ValueError, match=f"which {what}: want a decoder of text"):
            tv.generate(decoder(name), ids)
    with pytest.raises(ValueError, match="got Linear, want a causal language model"):
        tv.generate(torch.nn.Linear(2, 2), ids)
    with pytest.raises(ValueError, match="draws: got 'cuda', want 'torch' or 'device'"):
        tv.generate(model, ids, do_sample=True, draws="cuda")
    with pytest.raises(ValueError, match="truncate_long_and_double=True cuts"):
        tv.generate(model, ids, do_sample=True, draws="device", truncate_long_and_double=True)
    with pytest.raises(ValueError, match="min_blok_size"):
        tv.generate(model, ids, min_blok_size=3)


NAN = float("nan")


@pytest.mark.parametrize("arguments,message", [
    ({"repetition_penalty": 0.0}, "repetition_penalty: got 0.0, want a finite number above 0"),
    ({"repetition_penalty": -1.0}, "repetition_penalty: got -1.0, want"),
    ({"repetition_penalty": NAN}, "repetition_penalty: got nan, want"),
    ({"repetition_penalty": "2"}, "repetition_penalty: got '2', want"),
    ({"do_sample": True, "top_p": NAN}, "top_p: got nan, want a number from 0 to 1"),
    ({"do_sample": True, "top_p": 1.5}, "top_p: got 1.5, want"),
    ({"top_p": 1.5}, "top_p: got 1.5, want"),
    ({"min_p": -0.1}, "min_p: got -0.1, want"),
    ({"do_sample": True, "top_k": 1.5}, "top_k: got 1.5, want an integer, 0 or more"),
    ({"do_sample": True, "top_k": -1}, "top_k: got -1, want"),
    ({"do_sample": True, "temperature": 0}, "temperature: got 0, want a finite number above 0"),
    ({"do_sample": "no"}, "do_sample: got 'no', want True or False"),
    ({"do_sample": 1}, "do_sample: got 1, want True or False"),
    ({"max_new_tokens": True}, "max_new_tokens: got True, want"),
    ({"eos_token_id": 1.5}, "eos_token_id: got 1.5, want a token or a list of tokens"),
    ({"eos_token_id": [1, True]}, "eos_token_id: got .1, True., want"),
    ({"eos_token_id": 1 << 70}, "eos_token_id: got 1180591620717411303424, want"),
    ({"eos_token_id": torch.tensor([0.5])}, "eos_token_id: got tensor.*, want"),
    ({"eos_token_id": "</s>"}, "eos_token_id: got '</s>', want"),
    ({"pad_token_id": 1 << 70}, "pad_token_id: got 1180591620717411303424, want a token of 97"),
    ({"pad_token_id": 97}, "pad_token_id: got 97, want a token of 97"),
    ({"pad_token_id": -1}, "pad_token_id: got -1, want a token of 97"),
    ({"pad_token_id": [1]}, "pad_token_id: got .1., want a token of 97"),
    ({"suppress_tokens": ["a"]}, "suppress_tokens: got .'a'., want"),
    ({"min_new_tokens": -1}, "min_new_tokens: got -1, want an integer, 0 or more"),
    ({"min_length": 2.5}, "min_length: got 2.5, want"),
    ({"prefill_chunk_size": 0}, "prefill_chunk_size: got 0, want an integer, 1 or more"),
    ({"attention_mask": [[1] * 3]}, "attention_mask: got list, want a tensor"),
    ({"seed": 1.5}, "seed: got 1.5, want an integer"),
    ({"seed": 1.5, "do_sample": True, "draws": "device"}, "seed: got 1.5, want an integer"),
    ({"seed": 1 << 64}, "seed: got 18446744073709551616, want an integer of 64 bits"),
    ({"streamer": 3}, "streamer: got int, want a callable, an object with put"),
    ({"report": []}, "report: got list, want a dict"),
    ({"steps_per_submission": True}, "steps_per_submission: got True"),
    ({"stopping_criteria": []}, "does not have stopping_criteria: .*use model.generate"),
    ({"num_beams": 4}, "does not have num_beams: .*use model.generate"),
    ({"generation_config": None}, "does not have generation_config"),
])
def test_arguments_that_are_no_such_thing(arguments, message):
    """Nothing is given to the streamer, and nothing is made."""
    with pytest.raises(ValueError, match=message):
        tv.generate(decoder("llama"), torch.ones(1, 3, dtype=torch.long), **arguments)


def test_ends_are_tensors_as_in_transformers():
    model = decoder("llama")
    ids = prompt(model, 1, 9)["input_ids"]
    free = model.generate(ids, max_new_tokens=8, do_sample=False)
    for ends in (free[0, 12], free[0, 12:14], [int(free[0, 12])], int(free[0, 12])):
        want = model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=ends)
        assert torch.equal(tv.generate(model, ids, 8, eos_token_id=ends), want)
