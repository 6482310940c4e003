"""A decoder compiled ahead of time whose static cache is its state."""

import copy
import inspect

import pytest
import torch
import transformers

import torch_vulkan as tv

from workloads.decoders import decoder, prompt

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

ROOM = 16


class Step(torch.nn.Module):
    """The logits behind one token; keys, values and lengths are buffers."""

    NAMES = ("keys", "values", "cumulative_length")

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=ROOM)
        config = model.config
        self.cache.early_initialization(
            1, config.num_key_value_heads, config.hidden_size // config.num_attention_heads,
            torch.float32, torch.device("cpu"))
        for i, layer in enumerate(self.cache.layers):
            for name in self.NAMES:
                self.register_buffer(f"{name}_{i}", getattr(layer, name))

    def forward(self, ids):
        for i, layer in enumerate(self.cache.layers):
            for name in self.NAMES:
                setattr(layer, name, getattr(self, f"{name}_{i}"))
        takes = inspect.signature(type(self.model).forward).parameters
        given = {"cache" if "cache" in takes else "past_key_values": self.cache}
        return self.model(input_ids=ids, use_cache=True, **given).logits[:, -1]


def test_the_cache_stays_in_the_program_and_its_file(tmp_path):
    model = decoder("llama")
    ids = prompt(model, 1, 1)["input_ids"]
    eager = Step(model)
    with torch.no_grad():
        program = tv.compile(Step(copy.deepcopy(model)), inputs=[ids],
                             require_full_compilation=True)
        places = {name: buffer.data_ptr() for name, buffer in program.named_buffers()}
        for _ in range(5):
            want = eager(ids)
            torch.testing.assert_close(program(ids), want)
            ids = want.argmax(-1, keepdim=True)
        assert places == {name: buffer.data_ptr() for name, buffer in program.named_buffers()}
        for name, buffer in eager.named_buffers():
            if name.startswith(Step.NAMES):
                torch.testing.assert_close(program.get_buffer(name), buffer)

        tv.save(program, tmp_path / "step.pt2")
        loaded = tv.load(tmp_path / "step.pt2")
        for _ in range(3):  # from where it was saved
            want = eager(ids)
            torch.testing.assert_close(loaded(ids), want)
            ids = want.argmax(-1, keepdim=True)
    assert int(loaded.get_buffer("cumulative_length_0")) == 8
    assert int(program.get_buffer("cumulative_length_0")) == 5
