"""Writes the seeds of the fuzz targets over small files: python tests/fuzz/make_file_corpus.py"""

import hashlib
import io
import json
import struct
import tempfile
from pathlib import Path

import numpy
import torch
from safetensors.torch import save
from torch import nn

import torch_vulkan as tv

HERE = Path(__file__).parent


def entry(key: bytes, value: bytes) -> bytes:
    """An entry of the on-disk store (runtime/store/store_entry.h)."""
    data = b"TVSTORE\n" + struct.pack("<IIQQ", 1, 0, len(key), len(value)) + key + value
    return data + hashlib.sha256(data).digest()


def npy(array) -> bytes:
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def npz(save, **arrays) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def timings() -> bytes:
    """As csrc/tuner/timing_cache.h describes the file."""
    def one(**more):
        return {"kernels": "ab12", "kind": "timed", "time_us": 12.5, "checked": True, **more}

    problems = {"matmul 4 4": {"matmul_row": one(), "matmul_tile": one(step_us=[3, 9.5])},
                "softmax 7": {"row": {"kernels": "1", "kind": "wrong", "why": "off by 3"}}}
    return json.dumps({"format": "torch_vulkan timings", "version": 1,
                       "devices": {"llvmpipe 22.3": problems, "none": {}}}, indent=1).encode()


def tokenizers() -> dict[str, bytes]:
    """Files of the kinds that models come with, each with a text behind a byte of 0."""
    def merged(normalizer, pre_tokenizer, decoder, more=(), **model):
        letters = ["\u2581" if "byte_fallback" in model else "\u0120", *"abcdef .", *more]
        words = ["ab", "abc", "de"]
        file = {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": 90, "content": "<s>", "single_word": False, "lstrip": False,
                              "rstrip": True, "normalized": False, "special": True}],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder,
            "post_processor": {"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [90], "tokens": ["<s>"]}}},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **model,
                      "vocab": {token: i for i, token in enumerate([*letters, *words])},
                      "merges": ["a b", "ab c", "d e"]}}
        return json.dumps(file).encode() + b"\0abc de <s> \xc3\xa9 abcdef."

    def byte_level(regex):
        return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                "use_regex": regex}

    split = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {
            "Regex": "(?i:'s|'t)|\\p{L}+|\\p{N}{1,3}| ?[^\\s]+|\\s+(?!\\S)"}},
        byte_level(False)]}
    pieces = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    marks = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    return {
        "byte_level": merged(None, byte_level(True), byte_level(True)),
        "split": merged({"type": "NFC"}, split, byte_level(True), ignore_merges=True),
        "pieces": merged(marks, None, pieces, [f"<0x{b:02X}>" for b in (0x64, 0xC3, 0xA9)],
                         byte_fallback=True, fuse_unk=True),
    }


def graph(folder: Path, name: str, module, x, high: int) -> bytes:
    """A graph file for batches of 1 to `high`."""
    path = folder / name
    tv.export_graph(module.eval(), path, [tv.Input(
        min_shape=(1, *x), opt_shape=(1, *x), max_shape=(high, *x))])
    return path.read_bytes()


class Pieces(nn.Module):
    """Operators of many families."""

    def forward(self, x):
        up = nn.functional.interpolate(x.unsqueeze(1), scale_factor=2.0, mode="bilinear")
        up = nn.functional.pad(nn.functional.avg_pool2d(up, 2), (1, 0, 0, 1), mode="replicate")
        values, places = x.topk(3, -1)
        picked = x.gather(-1, places) + x[:, [0, 2, 1], :3].cumsum(1).amax(1, keepdim=True)
        parts = torch.cat([picked[:, 1:], values.flip(-1).roll(1, 1)], 1).split([2, 5], 1)
        order = parts[1].sort(1, descending=True)[0].masked_fill(parts[1] > 0.5, 0.0)
        return up.sum((1, 2)), order.transpose(1, 2).reshape(-1, 15), torch.bmm(x, x.mT).var(-1)


class Heads(nn.Module):
    """Attention of grouped heads, and a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(4, 4, 3, stride=2, output_padding=1, groups=2)

    def forward(self, x):
        q = x.unflatten(-1, (4, 2)).transpose(1, 2)
        out = nn.functional.scaled_dot_product_attention(q, q[:, ::2], q[:, ::2], enable_gqa=True)
        return self.up(out.flatten(2)), nn.functional.layer_norm(x, [8]).std(-1)


def graphs() -> dict[str, bytes]:
    torch.manual_seed(0)
    pictures = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(16, 2))
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    with tempfile.TemporaryDirectory() as folder:
        return {"pictures": graph(Path(folder), "pictures", pictures, (3, 6, 6), 1),
                "layer": graph(Path(folder), "layer", layer, (5, 8), 4),
                "pieces": graph(Path(folder), "pieces", Pieces(), (4, 5), 4),
                "heads": graph(Path(folder), "heads", Heads(), (6, 8), 4)}


def main():
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    seeds = {
        "store": {"small": entry(b"key", b"value"), "empty": entry(b"", b""),
                  "long": entry(b"k" * 300, bytes(range(256)) * 4)},
        "timings": {"two.json": timings(), "empty.json": b"{}"},
        "npy": {"float.npy": npy(x), "fortran.npy": npy(numpy.asfortranarray(x)),
                "scalar.npy": npy(numpy.int64(3)), "bool.npy": npy(x > 2),
                "empty.npy": npy(numpy.zeros((0, 4), numpy.int8))},
        "npz": {"stored.npz": npz(numpy.savez, x=x, y=x > 2),
                "deflated.npz": npz(numpy.savez_compressed, x=x, y=numpy.zeros(500)),
                "none.npz": npz(numpy.savez)},
        "safetensors": {"two": save({"a": torch.ones(2, 3), "b": torch.arange(4)}),
                        "none": save({}), "scalar": save({"s": torch.tensor(1.5)})},
        "graph": graphs(),
        "tokenizer": tokenizers(),
    }
    for reader, files in seeds.items():
        folder = HERE / f"corpus_{reader}"
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
