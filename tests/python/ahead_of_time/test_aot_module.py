"""What torch's own tools do with a program that was loaded."""

import copy
import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from aot_helpers import compiled, rows
from helpers import assert_same

X = torch.randn(4, 8)


@pytest.fixture(params=["net.pt2", "net.pt"])
def loaded(request, tmp_path):
    """A program out of a file, and the module that it was made from."""
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    path = tmp_path / request.param
    tv.save(compiled(model, [rows(1, 4, 16, 8)]), path,
            output_format="torchscript" if path.suffix == ".pt" else "exported_program")
    program = tv.load(path)
    yield program, model
    with torch.no_grad():  # whatever was done with it
        assert_same(program(X), model(X))


def test_copies(loaded):
    program, model = loaded
    twin, same = copy.deepcopy(program), copy.copy(program)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in program.state_dict().items()}
    twin.load_state_dict(zeros)
    assert_same(twin(X).detach(), torch.zeros(4, 3))
    assert_same(same(X), model(X).detach())
    assert same.get_parameter("0.weight") is program.get_parameter("0.weight")
    assert [*twin.state_dict()] == [*model.state_dict()]
    with pytest.raises(RuntimeError, match='Unexpected key.*"weird"'):
        twin.load_state_dict({**zeros, "weird": torch.zeros(1)})
    twin.load_state_dict(model.state_dict(), assign=True)
    assert_same(twin(X), model(X).detach())


def test_functional_call(loaded):
    program, model = loaded
    doubled = {name: 2 * tensor for name, tensor in model.state_dict().items()}
    assert_same(torch.func.functional_call(program, doubled, (X,)),
                torch.func.functional_call(model, doubled, (X,)).detach())


def test_captured_again(loaded):
    program, model = loaded
    exported = torch.export.export(program, (X,))
    parts = [part for part in exported.graph_module.modules() if hasattr(part, "code")]
    assert any("torch_vulkan.execute" in part.code for part in parts)
    x = torch.randn(4, 8)
    for again in (exported.module(), torch.jit.trace(program, (X,)),
                  torch.compile(program, backend="aot_eager")):
        with torch.no_grad():
            assert_same(again(x), model(x))


def test_pickle_says_what_to_do(loaded):
    for write in (pickle.dumps, lambda program: torch.save(program, io.BytesIO())):
        with pytest.raises(TypeError, match=r"not pickled: tv\.save\(program, path\)"):
            write(loaded[0])


def test_threads_and_new_weights(loaded):
    """Calls go on while weights are replaced; what was set last is what holds."""
    program, model = loaded
    twin = copy.deepcopy(program)
    other = {name: tensor * 0.5 if tensor.is_floating_point() else tensor
             for name, tensor in program.state_dict().items()}
    done, results = threading.Event(), []

    def work():
        while not done.is_set():
            results.append(twin(X))

    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(work) for _ in range(4)]
        try:
            for weights in (other, program.state_dict()) * 10:
                tv.refit(twin, weights)
        finally:
            done.set()
    for run in runs:
        run.result()
    assert len(results) >= 4
    assert all(torch.isfinite(result).all() for result in results)
    assert_same(twin(X), model(X).detach())
