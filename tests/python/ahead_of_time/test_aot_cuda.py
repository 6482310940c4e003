"""Programs compiled ahead of time whose tensors are, or come to be, on CUDA."""

import copy

import pytest
import torch

import torch_vulkan as tv

from aot_helpers import close, network, python
from helpers import exact_products, shared_gpu

pytestmark = pytest.mark.skipif(not shared_gpu(), reason="no GPU that CUDA and Vulkan share")

NAMES = ["ResNet-50", "BERT-base"]


@pytest.fixture(autouse=True)
def exact():
    with exact_products(), torch.no_grad():
        yield


def on(device, inputs):
    return {key: value.to(device) for key, value in inputs.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_moves(name):
    model, program, inputs = network(name)
    model = copy.deepcopy(model).cuda()  # whose parameters were the program's
    twin = copy.deepcopy(program)
    assert program.to("cuda") is program
    assert {t.device.type for t in program.state_dict().values()} == {"cuda"}
    for batch in (2, 3, 2):
        given = on("cuda", inputs(batch))
        got = program(**given)[0]
        assert got.device.type == "cuda"
        close(got, model(**given)[0])
    close(twin(**inputs(2))[0].cuda(), model(**on("cuda", inputs(2)))[0])
    program.to("cpu")
    close(program(**inputs(2))[0].cuda(), model(**on("cuda", inputs(2)))[0])


PROGRAM = """
import sys, torch, torch_vulkan as tv
from torch_vulkan import compilations
given = torch.load(sys.argv[2])
program = tv.load(sys.argv[1])
with torch.no_grad():
    torch.save(program(**given)[0], sys.argv[3])
assert not compilations.compilations(), "something was built"
"""


@pytest.mark.parametrize("suffix,form", [("pt2", None), ("pt", "torchscript")])
def test_saved_from_cuda(suffix, form, tmp_path):
    model, _, inputs = network("ResNet-50")
    model, given = model.cuda(), on("cuda", inputs(2))
    program = tv.compile(model, given, min_block_size=1)
    close(program(**given)[0], model(**given)[0])
    path = tmp_path / f"net.{suffix}"
    tv.save(program, path, **({"output_format": form} if form else {}))
    torch.save(given, tmp_path / "given")
    python(PROGRAM, path, tmp_path / "given", tmp_path / "got")
    got = torch.load(tmp_path / "got")
    assert got.device.type == "cuda"
    assert torch.equal(got, program(**given)[0])


def test_refit_on_cuda():
    model, _, inputs = network("BERT-base")
    model, given = model.cuda(), on("cuda", inputs(2))
    program = tv.compile(copy.deepcopy(model), given, min_block_size=1)
    before = program(**given)[0].clone()
    for tensor in model.parameters():
        tensor.mul_(1.1)
    tv.refit(program, {key: value.cpu() for key, value in model.state_dict().items()})
    after = program(**given)[0]
    assert not torch.equal(after, before)
    close(after, model(**given)[0])
