#!/usr/bin/env python3
"""Writes csrc/operators/schemas.inc: what PyTorch and its libraries say of the operators that the
registry has; of libraries that need not be there, what they are known to say. Needs torchao and
transformers. A test compares the file with what is installed."""

import argparse
import importlib
import re
from pathlib import Path

import torch

import torch_vulkan as tv

PATH = Path(__file__).parents[1] / "csrc" / "operators" / "schemas.inc"
HEAD = f"""\
// Written by scripts/operator_schemas.py: schemas of the operators that the registry has, without
// what they say of aliases. Of PyTorch {torch.__version__.rpartition('.')[0]}.
"""
LIBRARIES = ("torch.ao.quantization.fx._decomposed", "torchao.quantization.quant_primitives",
             "transformers.integrations.moe")  # importing one registers its operators
KNOWN = {"tensorrt::quantize_op":  # nvidia-modelopt's
         "tensorrt::quantize_op(Tensor input, Tensor amax, int num_bits, int exponent_bits, "
         "bool unsigned, bool narrow_range) -> Tensor"}
OWN = ("tv", "complex")  # Converter::schema has them


def schema_text(op: str) -> str:
    """"aten::relu(Tensor self) -> Tensor". Raises AttributeError where no library has it."""
    if op in KNOWN:
        return KNOWN[op]
    library, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, library), name)
        text = str(getattr(packet, overload or "default")._schema)
    except AttributeError:
        raise AttributeError(f"the registry has {op}, and nothing that LIBRARIES names registers "
                             "it: name the module that does, or write its schema into KNOWN "
                             "(docs/adding_an_operator.md)") from None
    return re.sub(r"Tensor\([a-z](?:[^a-z)][^)]*)?\)", "Tensor", text)


def operators() -> list[str]:
    """Those of the registry that a library defines, and ATen's behind operators on complex values.
    """
    names = {entry["op"] for entry in tv.supported_ops()}
    names |= {name.replace("complex::", "aten::", 1) for name in names} - {"aten::scalar"}
    return sorted(name for name in names if name.partition("::")[0] not in OWN)


def page() -> str:
    for library in LIBRARIES:
        importlib.import_module(library)
    return HEAD + "".join(f'R"({schema_text(op)})",\n' for op in operators())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    if parser.parse_args().check:
        raise SystemExit(PATH.read_text() != page())
    PATH.write_text(page())


if __name__ == "__main__":
    main()
