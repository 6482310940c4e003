"""A tokenizer's file cannot ask for unlimited work: texts, steps and expressions have bounds."""

import json
import subprocess

import pytest
from test_tokenizer import GPT4, TOOL, Tokenizer
from test_tokenizer import pytestmark as pytestmark

from marks import turns
from workloads.patience import patience

DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BYTES_AGAIN = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}


@turns(3)
@pytest.mark.parametrize("member, value, request_, most", [
    ("normalizer", {"type": "Sequence", "normalizers": [DOUBLED] * 40}, "a", "256 times"),
    ("normalizer", {"type": "Sequence", "normalizers": [DOUBLED] * 40}, "a" * 300000, "64 MiB"),
    ("normalizer", {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 40}, "é",
     "256 times"),
    ("normalizer", DOUBLED | {"content": "x" * 70000}, "a" * 1000, "64 MiB"),
    ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [BYTES_AGAIN] * 40}, "é", "64 MiB"),
    ("decoder", {"type": "Sequence", "decoders": [DOUBLED] * 40}, [0], "256 times"),
], ids=["doubled", "doubled-long", "bytes", "long-content", "pre_tokenizer", "decoder"])
def test_a_short_file_makes_no_endless_text(member, value, request_, most, tmp_path):
    data = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, member: value}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    done = subprocess.run([TOOL, tmp_path / "tokenizer.json"], input=json.dumps(request_) + "\n",
                          capture_output=True, text=True, timeout=patience(300))
    assert done.returncode == 1 and f"more than {most}" in done.stderr, done.stderr


def sequence(member, steps):
    names = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders",
             "post_processor": "processors"}
    return {"type": "Sequence", names[member]: steps}


def nested(member, depth):
    value = sequence(member, [])
    for _ in range(depth):
        value = sequence(member, [value])
    return value


def template(texts, ids):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}}] * texts
            + [{"Sequence": {"id": "A"}}], "special_tokens": {"a": {"ids": [0] * ids}}}


def split_at(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated"}


def tokens_or_reason(tmp_path, request, **members):
    """The tool's answer to a request, or why there is none, of a file with a vocabulary of "a"."""
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model} | members))
    done = subprocess.run([TOOL, tmp_path / "tokenizer.json"], input=json.dumps(request) + "\n",
                          capture_output=True, text=True, timeout=patience(300))
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


SECTIONS = ["normalizer", "pre_tokenizer", "decoder", "post_processor"]


@pytest.mark.parametrize("member", SECTIONS)
def test_sections_have_few_steps(member, tmp_path):
    few, step = nested(member, 7), nested(member, 0)
    assert tokens_or_reason(tmp_path, "aa", **{member: few}) == [0, 0]
    deep = tokens_or_reason(tmp_path, "aa", **{member: nested(member, 8)})
    assert f"{member}: its sequences lie more than 8 deep" in deep
    assert tokens_or_reason(tmp_path, "aa", **{member: sequence(member, [step] * 256)}) == [0, 0]
    # Steps of sequences within sequences count, too.
    wide = sequence(member, [sequence(member, [step] * 15)] * 17)
    assert f"{member}: it has more than 256 steps" in tokens_or_reason(
        tmp_path, "aa", **{member: wide})


@pytest.mark.parametrize("processor", [
    template(4097, 1), template(1, 4097), template(70, 70),
    sequence("post_processor", [template(40, 1)] * 110)])
def test_few_tokens_are_around_a_text(processor, tmp_path):
    reason = tokens_or_reason(tmp_path, "a", post_processor=processor)
    assert "more than 4096 tokens around a text" in reason
    assert len(tokens_or_reason(tmp_path, "a", post_processor=template(64, 64))) == 4097


@pytest.mark.parametrize("expression, text", [  # without a character that a match must have
    (r"(a+)+[bc]", "a" * 4000), (r"(a+)+[bc]", ("a" * 22 + " ") * 2000),
    (r"(?:a|aa)+[bc]", "a" * 4000), (r"(a*)*[bc]|d", "a" * 4000),
    (r"(?:a?){40}a{40}[bc]", "a" * 4000), (r"(x+x+)+[yz]", "x" * 4000 + "a")])
def test_expressions_that_backtrack_have_an_end(expression, text, tmp_path):
    reason = tokens_or_reason(tmp_path, text, pre_tokenizer=split_at(expression))
    assert f"regular expression '{expression}': it takes too many steps" in reason
    assert "split the text, or mend the expression" in reason


@pytest.mark.parametrize("text", ["a" * 200000, " " * 200000 + "a", "a" * 3000 + " " * 3000 + "\n",
                                  "é" * 5000 + "1" * 5000 + " \n" * 3000 + "!" * 3000],
                         ids=["letters", "spaces", "both", "several"])
@pytest.mark.parametrize("expression", [GPT4, r"\s+(?!\S)|\s+|\S+"], ids=["gpt4", "spaces"])
def test_long_runs_are_no_reason_to_stop(text, expression, tmp_path):
    data = {"model": {"type": "BPE", "vocab": {"a": 0, " ": 1}, "merges": []},
            "pre_tokenizer": split_at(expression) | {"invert": False}}
    expected = Tokenizer.from_str(json.dumps(data | {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "post_processor": None, "decoder": None})).encode(text).ids
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    done = subprocess.run([TOOL, tmp_path / "tokenizer.json"], input=json.dumps(text) + "\n",
                          capture_output=True, text=True, check=True, timeout=patience(300))
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("member, request_", [("normalizer", "b" * 1000), ("decoder", [0] * 1000)])
def test_a_step_makes_no_more_than_a_later_one_takes_away(member, request_, tmp_path):
    """Nothing is left in the end of what each of a file's many tokens would cost."""
    grown = {"type": "Replace", "pattern": {"Regex": "a|b"}, "content": "x" * 1000}
    gone = {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "a"}
    reason = tokens_or_reason(tmp_path, request_, **{member: sequence(member, [grown, gone])})
    assert "more than 256 times as much" in reason


def test_tokens_decode_to_no_endless_text(tmp_path):
    model = {"type": "BPE", "vocab": {"a" * 70000: 0}, "merges": []}
    reason = tokens_or_reason(tmp_path, [0] * 1000, model=model)
    assert "more than 64 MiB" in reason


@pytest.mark.parametrize("member", ["continuing_subword_prefix", "end_of_word_suffix"])
def test_marks_of_words_are_short(member, tmp_path):
    """Each character of a text gets one."""
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": [], member: "x" * 65}
    assert "has more than 64 bytes" in tokens_or_reason(tmp_path, "a", model=model)
