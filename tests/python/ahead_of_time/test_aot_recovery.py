"""Programs on a device that is lost: the call raises, the next one opens the device anew.
test_faults.py has vkexec, test_bad_input.py torch.compile."""

import pytest

from aot_helpers import python
from helpers import shared_gpu
from marks import slow_but, turns

LOST = """
import sys, torch, torch_vulkan as tv
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 4)).eval()
model, x = model.to(sys.argv[3]), torch.randn(5, 8, device=sys.argv[3])
want = model(x).detach()
failed = 0
def attempt(call):
    global failed
    try:
        return call()
    except RuntimeError as error:
        assert isinstance(error, torch.AcceleratorError) or sys.argv[1] == "pt"
        assert "was lost" in str(error) and "opens it anew" in str(error), error
        failed += 1
program = None
while program is None:
    program = attempt(lambda: tv.compile(model, [x], min_block_size=1,
                                         pass_through_build_failures=True))
if sys.argv[1] == "pt":
    tv.save(program, sys.argv[2], output_format="torchscript")
    program = torch.jit.load(sys.argv[2])
elif sys.argv[1] == "pt2":
    tv.save(program, sys.argv[2])
    program = None
    while program is None:
        program = attempt(lambda: tv.load(sys.argv[2]))
with torch.no_grad():
    for i in range(14):  # submissions, at least, and so losses are named up to 13
        got = attempt(lambda: program(x))
        if got is not None:
            torch.testing.assert_close(got, want)
            if i == 6:
                model[0].bias.add_(1)
                if sys.argv[1] == "program":  # its weights are the module's own
                    want = model(x)
assert got is not None
print("failed", failed)
"""


@turns(3)
@pytest.mark.parametrize("submission,kind", slow_but(
    [(1, "program"), (6, "program"), (6, "pt"), (6, "pt2")],
    [(n, kind) for kind in ("program", "pt", "pt2") for n in range(1, 13)], rows=True))
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not shared_gpu(), reason="no GPU that CUDA and Vulkan share"))])
def test_the_call_after_a_loss_works(submission, kind, device, tmp_path):
    printed = python(LOST, kind, tmp_path / f"net.{kind}", device,
                     TORCH_VULKAN_LOSE_DEVICE=str(submission))
    assert printed.count("failed 1") == 1


AGAIN_AND_AGAIN = """
import torch, torch_vulkan as tv
model = torch.nn.Linear(8, 6)
x = torch.randn(5, 8)
program = tv.compile(model, [x], min_block_size=1)
messages = []
for _ in range(12):
    try:
        torch.testing.assert_close(program(x), model(x).detach())
    except torch.AcceleratorError as error:
        messages.append(str(error))
assert 0 < len(messages) < 12, messages
assert all("opens it anew" in text for text in messages[:3]), messages
assert all("is not opened again" in text for text in messages[4:]), messages
print("gave up after", len(messages))
"""


def test_a_device_that_is_lost_in_every_call_is_given_up():
    assert "gave up after" in python(AGAIN_AND_AGAIN, TORCH_VULKAN_LOSE_DEVICE="8+")


OTHERS = """
import sys, numpy as np, torch, torch_vulkan as tv
torch.manual_seed(0)
x = torch.randn(5, 8)
def scripted():
    module = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU()).eval())
    program = tv.compile(module, [x], min_block_size=1)
    def call():
        try:
            return program(x)
        except RuntimeError as error:  # of TorchScript's interpreter
            raise torch.AcceleratorError(str(error)) from error
    return call, module(x).detach()
def onnx():
    from onnx import TensorProto, helper
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"])], "net", *(
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 8])] for name in "xy"))
    program = tv.onnx.compile(helper.make_model(
        graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return (lambda: torch.from_numpy(program.run(None, {"x": x.numpy()})[0]),
            torch.nn.functional.gelu(x))
def builder():
    b = tv.Builder()
    b.output("y", b.op("aten::gelu", b.input("x", (5, 8))))
    engine = b.build()
    return lambda: engine.run({"x": x})["y"], torch.nn.functional.gelu(x)
make = {"script": scripted, "onnx": onnx, "builder": builder}[sys.argv[1]]
failed, made, got = 0, None, None
for i in range(14):
    try:
        call, want = made = made or make()
        got = call()
    except torch.AcceleratorError as error:
        assert "was lost" in str(error) and "opens it anew" in str(error), error
        failed += 1
    else:
        torch.testing.assert_close(got, want)
assert got is not None
print("failed", failed)
"""


@turns(3)
@pytest.mark.parametrize("submission,kind", slow_but(
    [(1, "script"), (4, "onnx"), (3, "builder")],
    [(n, kind) for kind in ("script", "onnx", "builder") for n in range(1, 9)], rows=True))
def test_others_say_it_too(submission, kind):
    printed = python(OTHERS, kind, TORCH_VULKAN_LOSE_DEVICE=str(submission))
    assert printed.count("failed 1") == 1


HALFWAY = """
import torch, torch_vulkan as tv
from torch_vulkan._engines import engine as module
model, x = torch.nn.Linear(8, 6), torch.randn(5, 8)
(engine,) = tv.engines(tv.compile(model, [x], min_block_size=1))
held = {tuple(p.shape): p for p in model.parameters()}
engine.set_weights([held[tuple(w["shape"])] for w in engine.info()["weights"]])
want, lost, refused = model(x).detach(), 0, 0
prepared, failures = module._prepared, 1
def prepare(*given):
    global failures
    if lost and failures:
        failures -= 1
        raise MemoryError("no memory for the weights")
    return prepared(*given)
module._prepared = prepare
for _ in range(14):
    try:
        (got,) = engine.run([x]).values()
        torch.testing.assert_close(got, want)
    except torch.AcceleratorError:
        lost += 1
    except MemoryError:
        refused += 1
torch.testing.assert_close(got, want)
print("lost", lost, "refused", refused)
"""


def test_an_engine_that_is_not_opened_at_once():
    """Memory runs out between the kernels and the weights: the next call opens it all."""
    assert "lost 1 refused 1" in python(HALFWAY, TORCH_VULKAN_LOSE_DEVICE="9")
