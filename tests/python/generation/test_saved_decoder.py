"""A decoder compiled ahead of time whose static cache is its state."""

import copy
import inspect

import pytest
import torch
import transformers

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import turns
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


def state_of(module):
    return {name: buffer for name, buffer in module.named_buffers()
            if name.rsplit(".", 1)[-1].startswith(Step.NAMES)}


def copies(state, program, ids):
    """What a call returns, and the copies that it makes of tensors with the shapes of its state,
    whoever makes them."""
    shapes = [[*tensor.shape] for tensor in state.values() if tensor.dim()]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                record_shapes=True) as profile:
        result = program(ids)
    return result, [event.name for event in profile.events()
                    if event.name in ("aten::copy_", "aten::clone", "aten::_to_copy")
                    and any(shape in shapes for shape in event.input_shapes)]


WAYS = {"program": None, "step.pt2": tv.load, "step.pt": tv.load,
        "exported step.pt2": lambda path: torch.export.load(path).module(),
        "scripted step.pt": torch.jit.load}


@pytest.fixture(scope="module")
def compiled_step():
    model = decoder("llama")
    ids = prompt(model, 1, 1)["input_ids"]
    with torch.no_grad():
        return model, ids, tv.compile(Step(copy.deepcopy(model)), inputs=[ids],
                                      require_full_compilation=True)


@pytest.mark.parametrize("way", WAYS)
def test_no_cache_is_copied(way, compiled_step, tmp_path):
    """Each step writes the state of a program where it lies, whatever file it came from."""
    model, ids, program = compiled_step
    program = copy.deepcopy(program)
    if WAYS[way]:
        path = tmp_path / way.rsplit(" ", 1)[-1]
        tv.save(program, path,
                output_format="torchscript" if path.suffix == ".pt" else "exported_program")
        program = WAYS[way](path)
    eager = Step(copy.deepcopy(model))
    with torch.no_grad():
        for step in range(4):
            state = state_of(program)
            versions = {name: tensor._version for name, tensor in state.items()}
            want = eager(ids)
            got, copied = copies(state, program, ids) if step % 2 else (program(ids), [])
            assert copied == []
            torch.testing.assert_close(got, want)
            for name, tensor in state_of(eager).items():
                torch.testing.assert_close(state[name], tensor)
                assert state_of(program)[name].data_ptr() == state[name].data_ptr()
                assert state[name]._version > versions[name], "a write is counted"
            ids = want.argmax(-1, keepdim=True)
    assert len(state) == 3 * model.config.num_hidden_layers


@pytest.mark.parametrize("arrays", [False, True])
def test_an_engine_alone_changes_its_inputs(arrays, compiled_step, tmp_path):
    model, ids, program = compiled_step
    (engine,) = tv.engines(program)
    engine.save(tmp_path / "step.vke")
    engine = tv.Engine.load(tmp_path / "step.vke")
    eager = Step(copy.deepcopy(model))
    bindings = engine.info()["inputs"]
    assert sum(binding["written"] for binding in bindings) == 3 * model.config.num_hidden_layers
    (own,) = (b["name"] for b in bindings if not b["written"])
    given = {name: tensor.clone() for name, tensor in state_of(eager).items()}
    if arrays:
        given = {name: tensor.numpy() for name, tensor in given.items()}
    for _ in range(3):
        with torch.no_grad():
            want = eager(ids)
        (got,) = engine.run({**given, own: ids.numpy() if arrays else ids}).values()
        torch.testing.assert_close(torch.as_tensor(got), want)
        for name, tensor in state_of(eager).items():
            torch.testing.assert_close(torch.as_tensor(given[name]), tensor)
        engine.profile({**given, own: ids}, runs=2)  # changes nothing
        ids = want.argmax(-1, keepdim=True)


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


@turns(4)
@pytest.mark.parametrize("way", WAYS)
def test_no_cache_is_copied_between_engines(way, tmp_path):
    """A native operator in each layer: every engine writes the caches that it holds."""
    model = decoder("llama")
    ids = prompt(model, 1, 1)["input_ids"]
    with torch.no_grad():
        program = tv.compile(Step(copy.deepcopy(model)), inputs=[ids],
                             torch_executed_ops=["aten::silu"])
        assert len(tv.engines(program)) == model.config.num_hidden_layers + 1
        if WAYS[way]:
            path = tmp_path / way.rsplit(" ", 1)[-1]
            tv.save(program, path,
                    output_format="torchscript" if path.suffix == ".pt" else "exported_program")
            program = WAYS[way](path)
        eager = Step(copy.deepcopy(model))
        for step in range(4):
            state = state_of(program)
            want = eager(ids)
            # The first call of its sizes keeps what it writes: an engine may refuse them.
            got, copied = copies(state, program, ids) if step else (program(ids), [])
            assert copied == []
            torch.testing.assert_close(got, want)
            for name, tensor in state_of(eager).items():
                torch.testing.assert_close(state[name], tensor)
            ids = want.argmax(-1, keepdim=True)


@turns(2)
@pytest.mark.parametrize("between", ["graph break", "native operator"])
def test_no_cache_is_copied_by_torch_compile(between):
    model = decoder("llama")
    ids = prompt(model, 1, 1)["input_ids"]
    eager, step = Step(model), Step(copy.deepcopy(model))
    options = {}
    if between == "graph break":
        for layer in step.model.model.layers:
            layer.mlp.register_forward_pre_hook(lambda *_: torch._dynamo.graph_break())
    else:
        options["torch_executed_ops"] = ["aten::silu"]
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="vulkan", options=options)
    engines = len(compilations.compilations())
    with torch.no_grad():
        for number in range(4):
            want = eager(ids)
            got, copied = copies(state_of(step), compiled, ids) if number else (compiled(ids), [])
            assert copied == []
            torch.testing.assert_close(got, want)
            for name, tensor in state_of(eager).items():
                torch.testing.assert_close(step.get_buffer(name), tensor)
            ids = want.argmax(-1, keepdim=True)
    made = [e for record in compilations.compilations()[engines:] for e in record.engines]
    assert len(made) > model.config.num_hidden_layers
