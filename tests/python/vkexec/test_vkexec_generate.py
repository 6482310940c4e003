"""vkexec generate: the text of tv.generate and of eager mode, without Python and torch."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer

import torch_vulkan as tv

from marks import slow_but, turns
from workloads.decoders import VOCABULARY, byte_tokenizer, decoder
from workloads.patience import patience

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
ROOM = 96
PROMPT = "to be or not"
FAMILIES = ("gpt2", "llama")
DRAWN = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.3}
FLAGS = ("--temperature=0.8", "--topK=20", "--topP=0.9", "--repetitionPenalty=1.3")


def run(folder, *flags, code=0, prompt=PROMPT, stream="", **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run([VKEXEC, "generate", f"--model={folder}", f"--prompt={prompt}", *flags],
                          capture_output=True,
                          timeout=patience(300), env={**environment, **variables})
    assert done.returncode == code, (done.stdout, done.stderr)
    return (done.stderr if code or stream == "stderr" else done.stdout).decode()


def text_of(tokens, ids) -> str:
    """What `tokens` add to the prompt."""
    made = byte_tokenizer()
    return made.decode(tokens.tolist())[len(made.decode(ids[0].tolist())):] + "\n"


def saved(name, folder):
    model = decoder(name)
    tv.save_decoder(model, folder, ROOM, tokenizer=byte_tokenizer())
    return model, ids_of(PROMPT)


def ids_of(text):
    return torch.tensor([byte_tokenizer().encode(text).ids])


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return (folder, *saved("llama", folder))


@pytest.mark.parametrize("name", slow_but(("gpt2",), FAMILIES))
def test_greedy_tokens_are_eagers(name, tmp_path):
    model, ids = decoder(name), ids_of(PROMPT)
    want = model.generate(ids, max_new_tokens=64, do_sample=False)[0]
    end = next(token for token in range(VOCABULARY) if token not in want)
    model.generation_config.eos_token_id = end
    tv.save_decoder(model, tmp_path, ROOM, tokenizer=byte_tokenizer())
    assert json.loads((tmp_path / "generation.json").read_text())["ends"] == [end]
    assert run(tmp_path, "--tokens=64") == text_of(want, ids)
    assert run(tmp_path, "--tokens=64", "--stream") == text_of(want, ids)


def families():
    """The configurations that docs/generation.md says are saved."""
    page = (Path(__file__).parents[3] / "docs" / "generation.md").read_text()
    table = page.split("| family | configuration")[1].split("\n\n")[0]
    return re.findall(r"^\|.*\| `(\w+)` \|$", table, re.MULTILINE)


@turns(2)
@pytest.mark.parametrize("name", slow_but(("opt", "gemma3"), families()))
def test_families(name, tmp_path):
    model, ids = decoder(name), ids_of(PROMPT)
    tv.save_decoder(model, tmp_path, 48, tokenizer=byte_tokenizer(), optimization_level=0)
    want = model.generate(ids, max_new_tokens=30, do_sample=False)[0]
    assert run(tmp_path, "--tokens=30", "--stepsPerSubmission=7") == text_of(want, ids)


def test_models_without_a_cache_of_keys_are_refused(tmp_path):
    for name in ("t5", "bart", "whisper", "mamba"):
        with pytest.raises(ValueError, match="want a decoder of text with attention"):
            tv.save_decoder(decoder(name), tmp_path, 48)


@turns(3, group="ways of a step")
def test_several_tokens_a_submission(llama, tmp_path):
    """The text of one token a submission, also where it ends among tokens that were made."""
    folder, model, ids = llama
    want = model.generate(ids, max_new_tokens=33, do_sample=False)[0]
    for together, submissions in ((1, 32), (5, 7), (64, 1)):  # the prompt makes the first
        flags = f"--tokens=33 --stepsPerSubmission={together}".split()
        assert run(folder, *flags) == text_of(want, ids)
        assert run(folder, *flags, "--stream") == text_of(want, ids)
        said = run(folder, *flags, "--verbose", stream="stderr")
        assert f"submissions: {submissions}, tokens {together} a submission\n" in said
    usual = 1 if tv.devices()[0].type == "cpu" else 8
    said = run(folder, "--tokens=33", "--verbose", stream="stderr")
    assert f"tokens {usual} a submission\n" in said
    info = json.loads((folder / "generation.json").read_text())
    for file in folder.iterdir():
        if file.name != "generation.json":
            (tmp_path / file.name).symlink_to(file)
    for at in (0, 3, 8, 11):
        end = int(want[ids.shape[1] + at])
        (tmp_path / "generation.json").write_text(json.dumps(info | {"ends": [end]}))
        ended = model.generate(ids, max_new_tokens=33, do_sample=False, eos_token_id=end,
                               pad_token_id=0)[0]
        assert run(tmp_path, "--stepsPerSubmission=6") == text_of(ended, ids)
    drawn = ["--tokens=12", "--temperature=0.8", "--seed=7"]
    said = run(folder, *drawn, "--stepsPerSubmission=4", "--verbose", stream="stderr")
    assert ("submissions: 11, tokens 1 a submission: the host draws tokens and penalises "
            "repetitions") in said
    assert run(folder, *drawn, "--stepsPerSubmission=4") == run(folder, *drawn)


def test_scores_that_are_no_numbers(tmp_path):
    model = decoder("llama")
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    tv.save_decoder(model, tmp_path, ROOM, tokenizer=byte_tokenizer(), optimization_level=0)
    assert "scores that are no numbers (NaN)" in run(tmp_path, "--tokens=8", code=1)


@turns(3, group="ways of a step")
def test_draws_are_those_of_the_device(llama):
    folder, model, ids = llama
    for seed in (0, 7, 1 << 40 | 5):
        want = tv.generate(model, ids, 32, do_sample=True, seed=seed, draws="device", **DRAWN)[0]
        assert run(folder, "--tokens=32", f"--seed={seed}", *FLAGS) == text_of(want, ids)
    want = tv.generate(model, ids, 32, do_sample=True, top_k=0, seed=3, draws="device")[0]
    assert run(folder, "--tokens=32", "--seed=3", "--temperature=1") == text_of(want, ids)
    want = tv.generate(model, ids, 32, repetition_penalty=1.3)[0]
    assert run(folder, "--tokens=32", "--repetitionPenalty=1.3") == text_of(want, ids)


@turns(3, group="ways of a step")
def test_memory_of_the_device(llama, tmp_path):
    """As where the device has memory of its own: the cache stays there from step to step."""
    _, model, ids = llama
    staged = {"TORCH_VULKAN_STAGING": "1"}
    code = (f"import torch_vulkan as tv; from workloads.decoders import byte_tokenizer, decoder; "
            f"tv.save_decoder(decoder('llama'), {str(tmp_path)!r}, {ROOM}, optimization_level=0, "
            "tokenizer=byte_tokenizer())")
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | staged | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])})
    want = model.generate(ids, max_new_tokens=24, do_sample=False)[0]
    assert run(tmp_path, "--tokens=24", **staged) == text_of(want, ids)
    assert run(tmp_path, "--tokens=24", "--stepsPerSubmission=7", **staged) == text_of(want, ids)


def test_kernels_that_are_not_trusted(llama):
    folder, model, ids = llama
    want = model.generate(ids, max_new_tokens=24, do_sample=False)[0]
    assert run(folder, "--tokens=24", "--checkAddresses") == text_of(want, ids)


def test_long_and_short_prompts(llama, tmp_path):
    """A prompt is read in parts, none of them of one token; a prompt of one token is a step."""
    folder, model, _ = llama
    info = json.loads((folder / "generation.json").read_text())
    chunked = tmp_path / "chunked"
    chunked.mkdir()
    for file in folder.iterdir():
        (chunked / file.name).symlink_to(file)
    (chunked / "generation.json").unlink()
    (chunked / "generation.json").write_text(json.dumps(info | {"chunk": 8}))
    for prompt in ("q", "to be", "to be or not to be that is the question qqqqqqqqqqqqqqq"):
        ids = ids_of(prompt)
        want = model.generate(ids, max_new_tokens=16, do_sample=False)[0]
        for where in (folder, chunked):
            assert run(where, "--tokens=16", prompt=prompt) == text_of(want, ids)
    data = json.loads(byte_tokenizer().to_str()) | {"post_processor": None}
    (tmp_path / "plain.json").write_text(json.dumps(data))
    ids = torch.tensor([Tokenizer.from_file(str(tmp_path / "plain.json")).encode("q").ids])
    assert ids.shape == (1, 1)
    want = model.generate(ids, max_new_tokens=16, do_sample=False)[0]
    assert run(folder, "--tokens=16", f"--tokenizer={tmp_path / 'plain.json'}",
               prompt="q") == text_of(want, ids)


def test_a_text_ends_at_its_token_or_where_the_cache_is_full(llama, tmp_path):
    folder, model, ids = llama
    full = model.generate(ids, max_new_tokens=ROOM - ids.shape[1], do_sample=False)[0]
    assert run(folder) == text_of(full, ids)
    info = json.loads((folder / "generation.json").read_text())
    for file in folder.iterdir():
        if file.name != "generation.json":
            (tmp_path / file.name).symlink_to(file)
    end = int(full[ids.shape[1] + 9])
    (tmp_path / "generation.json").write_text(json.dumps(info | {"ends": [end]}))
    want = model.generate(ids, max_new_tokens=64, do_sample=False, eos_token_id=end,
                          pad_token_id=0)[0]
    assert len(want) < ids.shape[1] + 64
    assert run(tmp_path) == text_of(want, ids)


def test_verbose_says_the_pace(llama):
    folder, _, ids = llama
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([VKEXEC, "generate", f"--model={folder}", f"--prompt={PROMPT}",
                           "--tokens=8", "--verbose"], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0
    assert f"prompt: {ids.shape[1]} tokens in " in done.stderr
    assert "added: 8 tokens in " in done.stderr and "tokens/s" in done.stderr


@pytest.mark.parametrize("flags, code, message", [
    (["--tokens=97"], 1, "--tokens is 97; the cache has room for 96 together"),
    (["--prompt=" + "to be " * 60], 1, "the cache has room for 96 together"),
    (["--tokenizer=/no/such.json"], 1, "/no/such.json"),
    (["--model=/no/such"], 1, "/no/such is no folder, want one that tv.save_decoder wrote"),
    (["--temperature=0"], 2, "--temperature: got 0"),
    (["--stepsPerSubmission=0"], 2, "--stepsPerSubmission"),
    (["--topK=5"], 2, "--topK needs --temperature"),
    (["--topP=2", "--temperature=1"], 2, "got '2', want a number from 0 to 1"),
    (["--repetitionPenalty=0"], 2, "--repetitionPenalty: got 0"),
    (["--token=5"], 2, "unknown flag --token; did you mean --tokens?"),
    (["--prompt="], 2, "--prompt: 1 required TEXT missing"),
    (["--onnx=x"], 2, "unknown flag --onnx"),
])
def test_errors(flags, code, message, llama):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    given = {"--model": str(llama[0]), "--prompt": PROMPT} | dict(
        flag.split("=", 1) for flag in flags)
    done = subprocess.run([VKEXEC, "generate", *(f"{k}={v}" for k, v in given.items())],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == code and message in done.stderr, done.stderr
    assert done.stdout == "" or code == 1


def test_files_that_do_not_fit(llama, tmp_path):
    folder = llama[0]
    data = json.loads(byte_tokenizer().to_str())
    data["added_tokens"].append({"id": VOCABULARY, "content": "<more>", "special": True})
    (tmp_path / "larger.json").write_text(json.dumps(data))
    error = run(folder, f"--tokenizer={tmp_path / 'larger.json'}", code=1)
    assert "largest token is 97, and the model (LlamaForCausalLM) knows 97" in error
    data = json.loads(byte_tokenizer().to_str())
    data["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "<far>", "type_id": 0}}],
        "special_tokens": {"<far>": {"id": "<far>", "ids": [10**9], "tokens": ["<far>"]}}}
    (tmp_path / "larger.json").write_text(json.dumps(data))
    error = run(folder, f"--tokenizer={tmp_path / 'larger.json'}", code=1)
    assert "largest token is 1000000000, and the model" in error
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    for missing in ("tokenizer.json", "weights.safetensors", "prompt.vke", "generation.json"):
        (tmp_path / missing).unlink()
        assert missing in run(tmp_path, code=1)
        (tmp_path / missing).symlink_to(folder / missing)
    info = json.loads((folder / "generation.json").read_text())
    for wrong, message in (({"version": 9}, "got version 9"), ({"positions": "x"}, "'positions'"),
                           ({"chunk": 2}, "'chunk'"), ({"ends": ["x"]}, "'ends'"),
                           ({"vocabulary": 98}, "does not make the scores"),
                           ({"vocabulary": 2**31 - 1}, "does not make the scores"),
                           ({"positions": ROOM + 1}, "got 97, but the engine's cache")):
        (tmp_path / "generation.json").unlink()
        (tmp_path / "generation.json").write_text(json.dumps(info | wrong))
        assert message in run(tmp_path, code=1)


def test_files_of_another_model(llama, tmp_path):
    folder, model, _ = llama
    config = type(model.config).from_dict(model.config.to_dict() | {"num_hidden_layers": 1})
    other = tmp_path / "other"
    tv.save_decoder(type(model)(config).eval(), other, ROOM, optimization_level=0)
    mixed = tmp_path / "mixed"
    for name, message in (("step.vke", "prompt.vke and step.vke have different caches"),
                          ("prompt.vke", "prompt.vke and step.vke have different caches"),
                          ("weights.safetensors", "weights.safetensors does not fit prompt.vke; ")):
        mixed.mkdir()
        for file in folder.iterdir():
            (mixed / file.name).symlink_to((other if file.name == name else folder) / file.name)
        error = run(mixed, code=1)
        assert message in error and "save the model again" in error and str(mixed) in error
        for file in mixed.iterdir():
            file.unlink()
        mixed.rmdir()


@turns(2)
@pytest.mark.parametrize("damage", [
    "directory", "empty", "a byte", "half", "all but a byte", "zeros", "more"])
def test_files_that_are_damaged(llama, damage, tmp_path):
    """An exit status, and a sentence that names the file."""
    folder = llama[0]
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    for file in folder.iterdir():
        whole = file.read_bytes()
        made = {"empty": b"", "a byte": whole[:1], "half": whole[:len(whole) // 2],
                "all but a byte": whole.rstrip()[:-1], "zeros": bytes(len(whole)),
                "more": whole + b"x"}
        (tmp_path / file.name).unlink()
        if damage == "directory":
            (tmp_path / file.name).mkdir()
        else:
            (tmp_path / file.name).write_bytes(made[damage])
        if (damage, file.name) != ("more", "weights.safetensors"):  # what is behind it is not read
            assert file.name in run(tmp_path, code=1)
        if damage == "directory":
            (tmp_path / file.name).rmdir()
        else:
            (tmp_path / file.name).unlink()
        (tmp_path / file.name).symlink_to(file)


@pytest.mark.parametrize("ends, strange, kept", [
    (-1, [-1], []), ([-1, 5, 97, -7], [-1, 97, -7], [5]), ([], [], []), (None, [], [])])
def test_what_is_no_token_ends_nothing(ends, strange, kept, tmp_path):
    model, ids = decoder("llama"), ids_of(PROMPT)
    model.generation_config.eos_token_id = ends
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tv.save_decoder(model, tmp_path, ROOM, tokenizer=byte_tokenizer(), optimization_level=0)
    said = [str(warning.message) for warning in said if "eos_token_id" in str(warning.message)]
    assert len(said) == bool(strange)
    assert not said or f"has {strange}, which are none of the model's 97 tokens" in said[0]
    assert json.loads((tmp_path / "generation.json").read_text())["ends"] == kept
    want = model.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=kept or None)[0]
    assert run(tmp_path, "--tokens=6") == text_of(want, ids)


def test_alibi(tmp_path):
    """Its bias is as long as the cache, not as the text."""
    torch.manual_seed(0)
    model = transformers.FalconForCausalLM(transformers.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        alibi=True, initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=None))
    ids = ids_of(PROMPT)
    tv.save_decoder(model.eval(), tmp_path, ROOM, tokenizer=byte_tokenizer(), optimization_level=0)
    want = model.generate(ids, max_new_tokens=20, do_sample=False)[0]
    assert run(tmp_path, "--tokens=20") == text_of(want, ids)


def test_what_is_saved(tmp_path):
    model = decoder("llama")
    for arguments, message in (((model, tmp_path, 8), "max_length: got 8, want 16 or more"),
                               ((model, tmp_path, 1024), "max_position_embeddings"),
                               ((torch.nn.Linear(2, 2), tmp_path, 64), "want a causal language"),
                               ((decoder("t5"), tmp_path, 64), "want a decoder")):
        with pytest.raises(ValueError, match=message):
            tv.save_decoder(*arguments)
    with pytest.raises(ValueError, match="tokenizer: got int"):
        tv.save_decoder(model, tmp_path, 64, tokenizer=5)
    with pytest.raises(ValueError, match="min_blocksize"):
        tv.save_decoder(model, tmp_path, 64, min_blocksize=2)
