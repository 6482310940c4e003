"""Writes the seeds of the fuzz targets over small files: python tests/fuzz/make_file_corpus.py"""

import hashlib
import io
import json
import struct
from pathlib import Path

import numpy
import torch
from safetensors.torch import save

HERE = Path(__file__).parent


def entry(key: bytes, value: bytes) -> bytes:
    """An entry of the on-disk store (runtime/store/store_entry.h)."""
    data = b"TVSTORE\n" + struct.pack("<IIQQ", 1, 0, len(key), len(value)) + key + value
    return data + hashlib.sha256(data).digest()


def npy(array) -> bytes:
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def timings() -> bytes:
    """As csrc/tuner/timing_cache.h describes the file."""
    def one(**more):
        return {"kernels": "ab12", "kind": "timed", "time_us": 12.5, "checked": True, **more}

    problems = {"matmul 4 4": {"matmul_row": one(), "matmul_tile": one(step_us=[3, 9.5])},
                "softmax 7": {"row": {"kernels": "1", "kind": "wrong", "why": "off by 3"}}}
    return json.dumps({"format": "torch_vulkan timings", "version": 1,
                       "devices": {"llvmpipe 22.3": problems, "none": {}}}, indent=1).encode()


def main():
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    seeds = {
        "store": {"small": entry(b"key", b"value"), "empty": entry(b"", b""),
                  "long": entry(b"k" * 300, bytes(range(256)) * 4)},
        "timings": {"two.json": timings(), "empty.json": b"{}"},
        "npy": {"float.npy": npy(x), "fortran.npy": npy(numpy.asfortranarray(x)),
                "scalar.npy": npy(numpy.int64(3)), "bool.npy": npy(x > 2),
                "empty.npy": npy(numpy.zeros((0, 4), numpy.int8))},
        "safetensors": {"two": save({"a": torch.ones(2, 3), "b": torch.arange(4)}),
                        "none": save({}), "scalar": save({"s": torch.tensor(1.5)})},
    }
    for reader, files in seeds.items():
        folder = HERE / f"corpus_{reader}"
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
