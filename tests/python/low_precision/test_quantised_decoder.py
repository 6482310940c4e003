"""A language model with packed weights says the same words compiled as in eager mode."""

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import turns

transformers = pytest.importorskip("transformers")

PROMPT = torch.tensor([[1, 17, 42, 9, 77, 3]])
STEPS = 12


def decoder():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        tie_word_embeddings=False, initializer_range=0.3)
    return transformers.LlamaForCausalLM(config).eval()


def greedy(step):
    tokens, logits = PROMPT, []
    for _ in range(STEPS):
        logits.append(step(tokens)[:, -1])
        tokens = torch.cat([tokens, logits[-1].argmax(-1, keepdim=True)], 1)
    return tokens, torch.stack(logits)


@turns(3)
@pytest.mark.parametrize(("weights", "group_size"), [("int8", None), ("int8", 32), ("int4", 32)])
@torch.no_grad()
def test_the_same_tokens(weights, group_size):
    model = tv.quantize(decoder(), weights, group_size=group_size)

    def step(tokens):
        return model(input_ids=tokens, use_cache=False).logits

    compiled = torch.compile(step, backend="vulkan", dynamic=True, options={"min_block_size": 1})
    (tokens, logits), (wanted, exact) = greedy(compiled), greedy(step)
    torch.testing.assert_close(logits, exact, rtol=1e-4, atol=1e-4)
    assert torch.equal(tokens, wanted)
    assert len(tokens[0].unique()) > 4, "a model that repeats itself would be right by chance"
    (made,) = compilations.compilations()
    assert made.coverage > 0.9 and len(made.engines) == 1


@torch.no_grad()
def test_every_product_reads_packed_weights():
    model = tv.quantize(decoder(), "int4")
    report = tv.dry_run(model, {"input_ids": PROMPT, "use_cache": False}, min_block_size=1)
    outcomes = [tensor["outcome"] for engine in report.engines for tensor in engine["quantised"]]
    assert outcomes == ["read packed by 1 product"] * 15  # 7 a layer, and the head
