"""The tokenizer in C++ beside the tokenizers library: equal tokens and texts."""

import json
import random
import subprocess
import unicodedata
from pathlib import Path

import pytest

from marks import turns
from seeds import SEED

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import (  # noqa: E402
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from workloads.patience import patience  # noqa: E402

TOOL = Path(__file__).parents[3] / "build/tests/cpp/tokenize"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="build/tests/cpp/tokenize is not built")

WORDS = ["the", "Straße", "naïve", "cafe\u0301", "İstanbul", "Σίσυφος", "привет", "мир", "שלום",
         "नमस्ते", "สวัสดี", "日本語", "中文字", "한국어", "fi\ufb01", "can't", "WE'LL", "it's",
         "I'd", "they're", "'ſ", "x²", "٣٤٥", "12345", "3.14", "½", "Ⅻ", "e=mc^2", "def f(x):",
         "->", "…", "“q”", "<|end|>", "<|end|>er", "<unk>", "</s>", "[mask]", "😀",
         "👩‍👩‍👧‍👦", "🇩🇪", "\u200b", "\u00ad", "\ufeff", "\u180e", "ǅ", "Å", "\u212b",
         "a\u0300\u0316", "\u1e9b\u0323", "<0x41>", "▁", "Ġ", "ﷺ"]
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028",
          " \n ", "\x1c", "\x85", ""]
# Assigned since Unicode 6: libraries of several versions agree on them.
RANGES = [(0x20, 0x7E), (0xA1, 0x24F), (0x391, 0x3A1), (0x410, 0x44F), (0x5D0, 0x5EA),
          (0x905, 0x939), (0x300, 0x36F), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x1F600, 0x1F64F),
          (0, 0x1F), (0x2000, 0x206F), (0x2160, 0x2188), (0x1D400, 0x1D454)]
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def text_of(draw: random.Random) -> str:
    """Words of many languages, white space in runs, and characters of any kind."""
    parts = []
    for _ in range(draw.randrange(12)):
        if draw.random() < 0.2:
            low, high = draw.choice(RANGES)
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 4))))
        else:
            parts.append(draw.choice(WORDS))
        parts.append(draw.choice(SPACES))
    return "".join(parts)


def corpus() -> list[str]:
    draw = random.Random(0)
    return [text_of(draw) for _ in range(400)]


def train(tokenizer: Tokenizer, special=(), alphabet=(), size=700) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special),
                                  initial_alphabet=list(alphabet), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def gpt2(add_prefix_space=False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return train(tokenizer, ["<|end|>"], pre_tokenizers.ByteLevel.alphabet())


def llama3() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(GPT4), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, ["<|begin|>", "<|end|>"], pre_tokenizers.ByteLevel.alphabet())
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B",
                                      special_tokens=[("<|begin|>", 0)])])
    return tokenizer


def qwen() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(GPT4.replace("{1,3}", "")), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, ["<|end|>"], pre_tokenizers.ByteLevel.alphabet())


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2() -> Tokenizer:
    """As converted from SentencePiece: spaces are marks, unknown characters are bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.pre_tokenizer = None
    train(tokenizer, ["<unk>", "<s>", "</s>", *BYTES])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return with_plain_bytes(tokenizer)


def with_plain_bytes(tokenizer: Tokenizer) -> Tokenizer:
    """The tokens of bytes are the model's, not special ones."""
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(data))


def mistral(scheme="first") -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=False, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, split=False)
    tokenizer.decoder = decoders.Metaspace("▁", scheme)
    return with_plain_bytes(train(tokenizer, ["<unk>", "<s>", "</s>", *BYTES]))


def no_bytes() -> Tokenizer:
    """Unknown characters, in a row one token; words with a mark at their end."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return train(tokenizer, ["<unk>", "</s>"], size=300)


def falcon() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), behavior="isolated")])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, ["<|end|>"], pre_tokenizers.ByteLevel.alphabet())


def added() -> Tokenizer:
    """Tokens that are added in every way."""
    tokenizer = gpt2(add_prefix_space=True)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([
        AddedToken("naïve", normalized=True), AddedToken("THE", normalized=True, single_word=True),
        AddedToken("日本", normalized=False, rstrip=True), AddedToken("日", normalized=False),
        AddedToken("3.14", single_word=True, normalized=False, lstrip=True),
        AddedToken("é", normalized=False, lstrip=True, rstrip=True)])
    tokenizer.add_special_tokens([AddedToken("[mask]", lstrip=True, rstrip=True),
                                  AddedToken("WE'LL", normalized=True)])
    return tokenizer


def split(behavior, invert=False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\d+|[\s\p{P}]|\w(?=')"), behavior=behavior, invert=invert),
        pre_tokenizers.Split("th", behavior="merged_with_next"),
        pre_tokenizers.WhitespaceSplit()])
    tokenizer.decoder = decoders.Fuse()
    return train(tokenizer, ["<unk>"])


MADE = {
    "gpt2": gpt2, "gpt2 prefixed": lambda: gpt2(True), "llama3": llama3, "qwen": qwen,
    "llama2": llama2, "mistral": mistral, "metaspace always": lambda: mistral("always"),
    "metaspace never": lambda: mistral("never"), "no bytes": no_bytes, "falcon": falcon,
    "added": added, "removed": lambda: split("removed"), "isolated": lambda: split("isolated"),
    "previous": lambda: split("merged_with_previous"), "next": lambda: split("merged_with_next"),
    "contiguous": lambda: split("contiguous"), "inverted": lambda: split("removed", True)}


# Characters that both libraries know, whichever Unicode they are of.
CHARACTERS = [chr(c) for c in range(1, 0x20000) if not 0xd800 <= c < 0xe000
              and unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"]


@turns(3)
@pytest.mark.parametrize("pattern", [
    r"\w", r"\W", r"[\w]", r"[^\w]", r"\d", r"[^\d]", r"\s", r"\S", r"[\s]", r"\p{L}",
    r"\p{^L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{Lu}", r"\p{Han}",
    r"[\p{L}\p{M}]", "(?i:[a-z])", "."])
def test_a_set_has_the_librarys_characters(pattern, tmp_path):
    """Each character by itself: what an expression finds is taken out of a text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "removed"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    got = answers(tmp_path / "tokenizer.json", CHARACTERS)
    want = [encoding.ids for encoding in tokenizer.encode_batch(CHARACTERS)]
    differ = [f"{ord(c):x}" for c, a, b in zip(CHARACTERS, got, want, strict=True) if a != b]
    assert differ == []


def answers(path, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([TOOL, path], input=lines, capture_output=True, text=True,
                          timeout=patience(300))
    assert done.returncode == 0, done.stderr
    made = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert len(made) == len(requests)
    return made


@pytest.mark.parametrize("name", MADE)
def test_tokens_and_texts_are_the_librarys(name, tmp_path):
    tokenizer = MADE[name]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    draw = random.Random(SEED)
    texts = ["", " ", "a", *(text_of(draw) for _ in range(1000))]
    want = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    for text, ids, got in zip(texts, want, answers(tmp_path / "tokenizer.json", texts),
                              strict=True):
        assert got == ids, repr(text)

    size = tokenizer.get_vocab_size()
    known = sorted(tokenizer.get_vocab().values())
    drawn = [[draw.choice(known) for _ in range(draw.randrange(24))] for _ in range(500)]
    lists = [ids for ids in [*want, *drawn, [size + 5, known[-1]]] if stable(tokenizer, ids)]
    assert len(lists) > 1000
    for ids, got in zip(lists, answers(tmp_path / "tokenizer.json", lists), strict=True):
        text = tokenizer.decode(ids)
        assert got["text"] == text, ids
        # A stream decodes tokens with those before them, so that the text is the whole one's.
        streamed = "".join(got["pieces"])
        assert streamed == text or "\ufffd" in text, ids


@pytest.mark.parametrize("expression", [
    r"\p{Han}+", r"\P{Han}+", r"\p{^Han}+", r"[\p{Hiragana}\p{Katakana}]+", r"[^\p{Latn}\p{L}]+",
    r"\p{Common}+", r"\p{Inherited}", r"\p{Alpha}+", r"\p{Lu}|\p{Nd}+", r"\w+", r"[^\w\s]+",
    r"\W+", "a{,2}", "a{,2}?b", "a{1,2}?", "a{2}", "a{,}", "{,x"])
def test_expressions_are_onigurumas(expression, tmp_path):
    texts = ["中、。国〆ー々〇", "ひらがなーカタカナ・ｶﾅ゛", "ab\u200cc\u200d d", "नम\u200d स्ते॥।",
             "aaaab{,x", "a{,2} a{,}aab", "Straße e\u0301 x ٣٤٥ Ⅻ ǅ"]
    assert_equal_splits(pre_tokenizers.Split(Regex(expression), "isolated"), texts, tmp_path)


FRONTS = ["a", "é", "e\u0301", "e\u0316\u0301", "\u00e9\u0316", "½", "ﬁ", "İ", "가",
          "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0301", "\u0344", "q\u0323\u0307",
          "\u1e9b\u0323", " ", "!", "▁", "A",
          "日", "Ⅻ", "ﷺ", "\u0dd9\u0dcf\u0dca", "\u0958", "b"]


def front_normalizer(draw):
    """None that replaces "^": of what that puts in the library makes two parts (0.23.3)."""
    makers = [
        normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD,
        normalizers.Lowercase, normalizers.StripAccents, normalizers.Strip, normalizers.ByteLevel,
        lambda: normalizers.Prepend(draw.choice(["!", "x y", "é", "e\u0301"])),
        lambda: normalizers.Replace(draw.choice(["a", "e", "!", " ", "\u0301",
                                                 Regex("^.")]), draw.choice(["", "!", "a b", "é"]))]
    return normalizers.Sequence([draw.choice(makers)() for _ in range(draw.randrange(1, 4))])


@pytest.mark.parametrize("part", range(3))
def test_marks_of_what_comes_from_the_front(part, tmp_path):
    """Metaspace "first" behind a splitter: every part that is made of a text's first character."""
    draw = random.Random(f"{SEED} {part}")
    letters = sorted({*map(chr, range(0x20, 0x250)), *"▁⁄" , *"".join(FRONTS)})
    texts = ["".join(draw.choice(FRONTS) for _ in range(draw.randrange(1, 5))) for _ in range(120)]
    for _ in range(24):
        tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
        tokenizer.normalizer = front_normalizer(draw)
        splitter = draw.choice([
            pre_tokenizers.Split(Regex("."), "isolated"), pre_tokenizers.Whitespace(),
            pre_tokenizers.Punctuation("isolated"), pre_tokenizers.ByteLevel(use_regex=True)])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [splitter, pre_tokenizers.Metaspace("▁", "first", split=False)])
        if draw.random() < 0.3:
            tokenizer.add_tokens([AddedToken("é", normalized=False)])
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        kept = [text for text in texts if encoded(tokenizer, text) is not None]
        got = answers(tmp_path / "tokenizer.json", kept)
        for text, ids in zip(kept, got, strict=True):
            assert ids == encoded(tokenizer, text), (text, tokenizer.to_str()[:900])


def test_nothing_is_found_in_nothing(tmp_path):
    """Not by an expression that would match there, behind a normalizer that leaves nothing."""
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace("b", ""), normalizers.Replace(Regex("$|^"), "a")])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = ["", "b", "bb", "a", "ab"]
    assert answers(tmp_path / "tokenizer.json", texts) == [
        tokenizer.encode(text).ids for text in texts]


def encoded(tokenizer, text):
    """The library's tokens; None where it stops."""
    try:
        return tokenizer.encode(text).ids
    except BaseException:
        return None


@pytest.mark.parametrize("switches", [
    {}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True},
    {"single_word": True}, {"single_word": True, "lstrip": True, "rstrip": True}])
@pytest.mark.parametrize("content", ["\n", " ", "  ", "\n\n", "\t "])
@pytest.mark.parametrize("normalized", [False, True])
def test_added_tokens_of_white_space(switches, content, normalized, tmp_path):
    """Those that strip what is beside them, and those of which a normalizer leaves nothing."""
    vocabulary = {c: i for i, c in enumerate(["a", "b", "ab", " ", "\n", "\t", "c", "!"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    if normalized:
        tokenizer.normalizer = normalizers.Strip()
    tokenizer.add_tokens([AddedToken(content, normalized=normalized, **switches),
                          AddedToken("c", rstrip=True, normalized=False)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    draw = random.Random(SEED)
    texts = ["", " ", "a\nb", "a \n\n b", *("".join(
        draw.choice(["a", "b", "ab", " ", "\n", "  ", "\t ", "c", "!"])
        for _ in range(draw.randrange(9))) for _ in range(200))]
    kept = [text for text in texts if encoded(tokenizer, text) is not None]
    assert len(kept) > 50
    for text, ids in zip(kept, answers(tmp_path / "tokenizer.json", kept), strict=True):
        assert ids == encoded(tokenizer, text), repr(text)


def test_words_have_join_controls_where_the_librarys_own_do(tmp_path):
    texts = ["ab\u200cc\u200d d", "नम\u200d स्ते", "x\u200dTHEy THE\u200d THE"]
    assert_equal_splits(pre_tokenizers.Whitespace(), texts, tmp_path,
                        [AddedToken("THE", single_word=True, normalized=False)])


def assert_equal_splits(pre_tokenizer, texts, folder, added=()):
    """Each part is a token of a vocabulary that is made of all parts."""
    texts = [*texts, "".join(texts)]
    parts = {part for text in texts for part, _ in pre_tokenizer.pre_tokenize_str(text)}
    vocabulary = {part: i for i, part in enumerate(sorted({"<unk>"} | parts | set("".join(texts))))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_tokens(list(added))
    tokenizer.save(str(folder / "tokenizer.json"))
    want = [tokenizer.encode(text).ids for text in texts]
    assert answers(folder / "tokenizer.json", texts) == want


def stable(tokenizer, ids) -> bool:
    """Whether the library itself decodes these; it stops where a token is all stripped."""
    try:
        tokenizer.decode(ids)
    except BaseException:
        return False
    return True


def test_a_stream_gives_whole_characters(tmp_path):
    tokenizer = gpt2()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = "日本語 🦄🧬 👩‍👩‍👧‍👦 𐍈 नमस्ते \u1e9b\u0323🦄"
    ids = tokenizer.encode(text).ids
    (got,) = answers(tmp_path / "tokenizer.json", [ids])
    assert "".join(got["pieces"]) == text and "\ufffd" not in "".join(got["pieces"])
    assert got["pieces"].count("") > 1  # tokens that are parts of a character
    (got,) = answers(tmp_path / "tokenizer.json", [ids[:-1]])  # one that never ends
    assert "".join(got["pieces"]) == tokenizer.decode(ids[:-1])


def change(data, path, value):
    *outer, name = path.split(".")
    for key in outer:
        data = data[key]
    data[name] = value


@pytest.mark.parametrize("path, value, message", [
    ("model.type", "Unigram", "model: type 'Unigram' is not supported, want BPE"),
    ("model.dropout", 0.1, "'dropout' is not supported"),
    ("model.shuffle", True, "model: 'shuffle' is not supported"),
    ("model.merges", ["a b c"], "want two tokens"),
    ("model.merges", ["zz yy"], "are not all in the vocabulary"),
    ("model.vocab", {"a": 0, "b": 0}, "two tokens have the number 0"),
    ("model.unk_token", "none", "'unk_token' is not in the vocabulary"),
    ("normalizer", {"type": "Nmt"}, "normalizer: type 'Nmt' is not supported"),
    ("normalizer", {"type": "Replace", "pattern": {"String": ""}, "content": "x"},
     "an empty string"),
    ("pre_tokenizer", {"type": "UnicodeScripts"}, "type 'UnicodeScripts' is not supported"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"[\p{L}&&[^\p{Han}]]"},
                       "behavior": "Isolated", "invert": False}, "got &&, which is not supported"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"a{2}+"}, "behavior": "Isolated"},
     "got }+, which is not supported"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "a{2}?"}, "behavior": "Isolated"},
     "got {n}?, which is not supported"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"\p{scx:Han}"},
                       "behavior": "Isolated"}, r"got \p{scx:Han}, which is not supported"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"},
     "regular expression '(a'"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"\ba"}, "behavior": "Isolated"},
     r"got \b, which is not supported"),
    ("decoder", {"type": "WordPiece", "prefix": "##"},
     "decoder: type 'WordPiece' is not supported"),
    ("post_processor", {"type": "BertProcessing"}, "type 'BertProcessing' is not supported"),
    ("added_tokens", [{"id": 7, "content": "a"}], "in the model's vocabulary"),
    ("added_tokens", [{"id": 5000, "content": "<new>"}],
     "'<new>' has the number 5000, and the library gives it 700, the next that is free"),
    ("ex\ntra", 1, "'ex\\x0atra' is not supported"),
    ("extra", 1, "'extra' is not supported"),
    ("model.vocab", [], "'vocab' is no object"),
])
def test_what_is_not_known_is_refused(path, value, message, tmp_path):
    data = json.loads(gpt2().to_str())
    change(data, path, value)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(data))
    done = subprocess.run([TOOL, file], input="", capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert str(file) in done.stderr


def test_files_that_are_none(tmp_path):
    for text, message in (("{", "line 1"), ("[]", "want an object"), ("{}", "'model' is missing")):
        file = tmp_path / "tokenizer.json"
        file.write_text(text)
        done = subprocess.run([TOOL, file], input="", capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr, done.stderr
    done = subprocess.run([TOOL, tmp_path / "none.json"], input="", capture_output=True, text=True)
    assert done.returncode == 1 and "none.json" in done.stderr
