"""A language model saved for vkexec, which continues a text without Python and torch.

    python examples/save_decoder.py
    python examples/save_decoder.py "Once upon a time" Qwen/Qwen3-0.6B

Without the name of a model (a folder, or one that transformers fetches) it is a small random one,
whose text means nothing.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import torch_vulkan as tv


def small() -> tuple:
    """A model of two layers, and a tokenizer trained on a line of text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        ["Once upon a time there was a small model."],
        trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=128,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, eos_token_id=None)
    return transformers.LlamaForCausalLM(config).eval(), tokenizer


def fetched(name: str) -> tuple:
    return (transformers.AutoModelForCausalLM.from_pretrained(name).eval(),
            transformers.AutoTokenizer.from_pretrained(name))


def main(prompt: str = "Once upon a time", name: str | None = None) -> None:
    model, tokenizer = fetched(name) if name else small()
    vkexec = Path(tv.__file__).parent / "bin" / "vkexec"
    with tempfile.TemporaryDirectory() as folder:
        tv.save_decoder(model, folder, max_length=256, tokenizer=tokenizer)
        print(*sorted(path.name for path in Path(folder).iterdir()))
        subprocess.run([vkexec, "generate", f"--model={folder}", f"--prompt={prompt}",
                        "--tokens=32", "--stream", "--verbose"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
