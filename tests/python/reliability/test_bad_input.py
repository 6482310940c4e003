"""What a user can get wrong, and what the machine can: each gives a message that says what to do,
never a crash and never a wrong result."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from helpers import assert_same, vulkan
from marks import slow_but, turns
from workloads.patience import patience


def python(program, **environment):
    """Runs a program in a process of its own; returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env={**os.environ, **environment}, timeout=patience(300))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def linear():
    """A linear layer and its engine for 2 to 16 rows, weights inside."""
    torch._dynamo.reset()
    module = nn.Linear(8, 3).requires_grad_(False)
    rows = tv.Input(min_shape=(2, 8), opt_shape=(4, 8), max_shape=(16, 8))
    (engine,) = tv.engines(tv.compile(module, [rows], min_block_size=1))
    by_shape = {tuple(p.shape): p for p in module.parameters()}
    engine.set_weights([by_shape[tuple(w["shape"])] for w in engine.info()["weights"]])
    return module, engine


@pytest.fixture(scope="module")
def vke(linear, tmp_path_factory):
    """Bytes of the engine's file."""
    path = tmp_path_factory.mktemp("engine") / "linear.vke"
    linear[1].save(path)
    return path.read_bytes()


# --- no Vulkan ---

WITHOUT_VULKAN = """
import torch, torch_vulkan as tv
assert tv.supported_ops()
def model(x):
    return torch.relu(x * 2 + 1) - 0.5
def message(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise SystemExit("no error")
x = torch.randn(3, 4)
options = {"min_block_size": 1}
print("devices:", message(tv.devices))
print("compile:", message(lambda: torch.compile(model, backend="vulkan", options=options)(x)))
# What builds no engine needs no device.
torch._dynamo.reset()
dry = torch.compile(model, backend="vulkan", options={**options, "dryrun": True})
assert torch.equal(dry(x), model(x))
"""

MISSING = {
    "loader": ({"TORCH_VULKAN_LIBRARY": "/nonexistent/libvulkan.so.1"}, "libvulkan1"),
    "driver": ({"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"},
               "mesa-vulkan-drivers"),
}


@turns(2)
@pytest.mark.parametrize("what", MISSING)
def test_without_vulkan_it_says_what_to_install(what):
    environment, package = MISSING[what]
    printed = python(WITHOUT_VULKAN, **environment)
    for line in ("devices:", "compile:"):
        (text,) = [part for part in printed.splitlines() if part.startswith(line)]
        assert "apt-get install" in text and package in text


def test_a_loader_that_is_no_library(tmp_path):
    path = tmp_path / "libvulkan.so.1"
    path.write_text("not a library")
    assert str(path) in python(WITHOUT_VULKAN, TORCH_VULKAN_LIBRARY=str(path))


# --- devices ---

@pytest.mark.parametrize("spec", ["no such card", 99, "0" * 31 + "1"])
def test_unknown_device(spec, device, vke):
    model = nn.Linear(3, 3).requires_grad_(False)
    for use in (lambda: tv.Engine(vke, device=spec),
                lambda: vulkan(model, device=spec)(torch.ones(1, 3)),
                lambda: tv.compile(model, [torch.ones(1, 3)], device=spec, min_block_size=1)):
        with pytest.raises(ValueError, match=f'no device "{spec}"; this machine has '
                                             'device 0: ') as error:
            use()
        assert device.name in str(error.value) and device.uuid in str(error.value)


def test_engine_of_another_kind_of_device(device, vke):
    """The fingerprint in the file differs: the message names both sides."""
    at = vke.index(b'"max_shared_bytes": ') + len(b'"max_shared_bytes": ')
    digit = b"1" if vke[at:at + 1] != b"1" else b"2"
    with pytest.raises(ValueError, match="another kind of device") as error:
        tv.Engine(signed(vke[:at] + digit + vke[at + 1:]))
    text = str(error.value)
    assert device.name in text and "build it again on this device" in text
    kept = int(vke[at:].split(b",")[0].split(b"}")[0])
    assert f"(here {kept})" in text and "max_shared_bytes" in text
    assert "{" not in text and len(text) < 400, "what differs, and no more"


# --- files ---

def signed(data: bytes) -> bytes:
    """The file with its digest made right: what an attacker or a bug in a writer would do."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def test_truncated_file(vke, tmp_path):
    path = tmp_path / "cut.vke"
    sizes = [*range(0, 200), *range(200, len(vke), max(1, len(vke) // 50)), len(vke) - 1]
    for size in sizes:
        path.write_bytes(vke[:size])
        with pytest.raises(ValueError, match=r"truncated|empty|not a \.vke file") as error:
            tv.Engine.load(path)
        assert str(path) in str(error.value)


def test_altered_file(vke):
    for at in [*range(0, 64), *range(64, len(vke), max(1, len(vke) // 100))]:
        with pytest.raises(ValueError, match=r"altered|truncated|not a \.vke file|format version"):
            tv.Engine(vke[:at] + bytes([vke[at] ^ 0x40]) + vke[at + 1:])
    with pytest.raises(ValueError, match="altered.*copy it again, or build the engine again"):
        tv.Engine(vke + b"\0")


def test_altered_file_with_its_digest_made_right(vke):
    """The metadata is parsed then, and whatever is accepted is within bounds."""
    choose = random.Random(0)
    metadata = int.from_bytes(vke[24:32], "little")
    refused = 0
    for _ in range(300):
        data = bytearray(vke)
        for _ in range(choose.choice((1, 1, 4))):
            data[choose.randrange(64, 64 + metadata)] = choose.randrange(256)
        try:
            tv._native.C.vke_info(signed(bytes(data)))
        except ValueError as error:
            assert str(error).startswith("[")
            refused += 1
    assert refused > 30


def test_seeds_of_the_fuzz_target_are_engines():
    """Else the fuzz target starts from files that the reader refuses at once."""
    seeds = sorted((Path(__file__).parents[2] / "fuzz" / "corpus").glob("*.vke"))
    assert len(seeds) >= 6
    for seed in seeds:
        assert tv._native.C.vke_info(seed.read_bytes())["outputs"], (
            f"{seed.name}: run tests/fuzz/make_corpus.py")


def test_file_of_a_newer_version(vke):
    with pytest.raises(ValueError, match="format version 3.*upgrade torch_vulkan"):
        tv.Engine(signed(vke[:8] + (3).to_bytes(4, "little") + vke[12:]))


def test_file_of_an_older_version(vke):
    """It may lack conditions on sizes, without which wrong sizes would not be noticed."""
    with pytest.raises(ValueError, match="format version 1, .* reads version 2: build the engine"):
        tv.Engine(signed(vke[:8] + (1).to_bytes(4, "little") + vke[12:]))


def test_file_that_is_no_engine(tmp_path):
    path = tmp_path / "net.vke"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ValueError, match="not a .vke file but a zip.*torch_vulkan.load"):
        tv.Engine.load(path)
    path.write_bytes(b"\x08\x07\x12\x07pytorch" + bytes(100))  # as ONNX files begin
    with pytest.raises(ValueError, match="not a .vke file; want one that an engine was saved to"):
        tv.Engine.load(path)
    with pytest.raises(FileNotFoundError):
        tv.Engine.load(tmp_path / "missing.vke")
    with pytest.raises(IsADirectoryError, match="is a directory, want a .vke file"):
        tv.Engine.load(tmp_path)


def test_damaged_engine_inside_torch(vke):
    """The custom class, as a saved program holds it."""
    damaged = bytearray(vke)
    damaged[100] ^= 1
    state = torch.frombuffer(damaged, dtype=torch.uint8)
    engine = torch.classes.torch_vulkan.Engine(state, "", False, False)
    with pytest.raises(ValueError, match="altered"):
        torch.ops.torch_vulkan.execute([torch.ones(4, 8)], [], engine)
    for wrong in (torch.zeros(10), torch.zeros(2, 5, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="one-dimensional uint8"):
            torch.classes.torch_vulkan.Engine(wrong, "", False, False).open()


# --- inputs of an engine ---

@pytest.mark.parametrize("shape, message", [
    ((17, 8), "dimension 0: got 17, want 2 to 16"),
    ((1, 8), "dimension 0: got 1, want 2 to 16"),
    ((0, 8), "dimension 0: got 0, want 2 to 16"),
    ((4, 9), "dimension 1: got 9, want 8"),
    ((4, 8, 1), "got 3 dimensions, want 2"),
    ((), "got 0 dimensions, want 2"),
])
def test_shape_outside_the_range(linear, shape, message):
    module, engine = linear
    with pytest.raises(ValueError, match=message):
        engine.run([torch.ones(shape)])
    x = torch.randn(16, 8)
    (got,) = engine.run([x]).values()
    torch.testing.assert_close(got, module(x))


@pytest.mark.parametrize("inputs, message", [
    ([], "inputs: got 0, want 1"),
    ([torch.ones(4, 8)] * 2, "inputs: got 2, want 1"),
    ({"other": torch.ones(4, 8)}, "is missing; got .'other'."),
    ([torch.ones(4, 8, dtype=torch.float64)], "got torch.float64, want float32"),
    ([torch.ones(4, 8, dtype=torch.int64)], "got torch.int64, want float32"),
    (["text"], "got str, want a tensor or array"),
    ([None], "got NoneType, want a tensor or array"),
])
def test_wrong_inputs(linear, inputs, message):
    with pytest.raises(ValueError, match=message):
        linear[1].run(inputs)


def test_wrong_weights(vke, linear):
    module, engine = linear
    weights = [module.weight, module.bias]
    for given, message in ((weights[:1], "weights: got 1, want 2"),
                           ([w.double() for w in weights], "got torch.float64, want float32"),
                           ([torch.ones(3, 9), torch.ones(9)], "shape")):
        with pytest.raises(ValueError, match=message):
            engine.set_weights(given)


def test_shape_outside_a_compiled_range():
    """torch compiles again where it may; the results stay right."""
    def function(x):
        return torch.relu(x) * 3 - x

    fast = vulkan(function)
    x = torch.randn(4, 5)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    with torch.no_grad():
        for rows in (4, 8, 9, 1):
            y = x if rows == 4 else torch.randn(rows, 5)
            assert_same(fast(y), function(y))


def test_dtype_changed_between_calls():
    def function(x):
        return torch.relu(x) * 3 - x

    fast = vulkan(function)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float16, torch.int32, torch.float64, torch.float32):
            x = torch.arange(-6, 6).to(dtype).reshape(3, 4)
            assert_same(fast(x), function(x))


# --- memory ---

OUT_OF_MEMORY = """
import resource, warnings
import torch, torch_vulkan as tv
from torch_vulkan._fx import engine_call

def function(x, y):
    # In an engine, a product that is never whole in eager's memory twice.
    z = x[:, None] * y[None, :]
    return torch.cumsum(z, 1).amax(1)

calls = []
fast = torch.compile(function, backend="vulkan", dynamic=True, options={"min_block_size": 1})
small = torch.randn(50), torch.randn(60)
with torch.no_grad(), engine_call.collected(calls):
    torch.testing.assert_close(fast(*small), function(*small))
assert calls, "no engine"
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + (600 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
large = torch.randn(30000), torch.randn(20000)  # 2.4 GB
caught = []
with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        fast(*large)
    except RuntimeError as error:  # eager's turn, and it has no memory either
        print("eager:", error)
    else:
        raise SystemExit("2.4 GB were found")
for warning in caught:
    print("warning:", warning.message)
with torch.no_grad():
    torch.testing.assert_close(fast(*small), function(*small))
print("recovered")
"""


def test_out_of_memory_on_the_device(device):
    """The engine finds no memory: a warning that says so, PyTorch's turn, and later calls work."""
    if device.type != "cpu":
        pytest.skip("limits the process's memory, which is the device's on a CPU only")
    printed = python(OUT_OF_MEMORY)
    assert "recovered" in printed and "runs natively" in printed
    assert "out of memory" in printed and "MiB" in printed


LOST_DEVICE = """
import warnings
import torch, torch_vulkan as tv

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(37, 29), torch.nn.GELU(), torch.nn.Linear(29, 11))
x = torch.randn(5, 37)

def gradients(f):
    model.zero_grad()
    f(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]

with torch.no_grad():
    want = model(x)
want_gradients = gradients(model)

def run(fast):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(30):
            with torch.no_grad():
                torch.testing.assert_close(fast(x), want)
            torch.testing.assert_close(gradients(fast), want_gradients)
    return [str(w.message) for w in caught if "runs natively" in str(w.message)]

def compiled():
    torch._dynamo.reset()
    return torch.compile(model, backend="vulkan", options={"min_block_size": 1})

for message in run(compiled()):
    print("warning:", message)
assert not run(compiled()), "a device that is opened anew works"
print("reopened")
"""


@turns(2)
@pytest.mark.parametrize("submission", slow_but((1, 10), [*range(1, 25), 40]))
def test_lost_device(submission):
    """Wherever the device is lost, the results are eager's; each engine says once that it runs
    natively, and what is compiled afterwards runs on a device that is opened anew."""
    printed = python(LOST_DEVICE, TORCH_VULKAN_LOSE_DEVICE=str(submission))
    assert "reopened" in printed
    warned = [line for line in printed.splitlines() if line.startswith("warning:")]
    assert len(warned) <= 3  # one for each engine
    assert warned or submission < 3  # the first ones belong to the build
    assert all("was lost" in line for line in warned)


def test_program_that_is_not_a_module():
    with pytest.raises(ValueError, match=r"want a torch\.nn\.Module"):
        tv.compile("resnet50", [torch.ones(1)])
