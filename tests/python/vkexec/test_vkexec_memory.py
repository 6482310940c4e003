"""vkexec where a process may have little address space (RLIMIT_AS): it ends with a message and a
status that is not 0, or with right results; never by a signal, and files are whole or not there."""

import os
import resource
import subprocess

import numpy as np
import pytest
import torch

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")

from test_vkexec_generate import PROMPT, saved, text_of  # noqa: E402
from test_vkexec_onnx import ONCE, VKEXEC, small_model  # noqa: E402

from marks import slow_but  # noqa: E402
from workloads.patience import patience  # noqa: E402

# What the drivers compiled before is of no help.
NO_DISK_CACHE = {"MESA_SHADER_CACHE_DISABLE": "true"}
SHAPE = (3, 7)
FEW = [22, 40, 120, 420, 540, 620, 760, 1500]
LIMITS = slow_but(FEW, sorted({*FEW, *range(14, 24), *range(40, 500, 20), *range(500, 820, 4),
                               1000, 2000}))  # MiB


def limited(mib, *arguments, **variables):
    """(status, what was printed, the results) with so much address space."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True,
                          timeout=patience(300),
                          preexec_fn=limit, env={**environment, **NO_DISK_CACHE, **variables})
    return done.returncode, (done.stdout + done.stderr).decode(), done.stdout.decode()


def check_failure(status, text, mib):
    """A message that names the cause."""
    assert status > 0, (mib, status, text)
    assert "memory" in text or "failed to map segment" in text or (
        "cannot allocate" in text.lower()), (mib, status, text)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, its engine, an input, and what it makes of it."""
    folder = tmp_path_factory.mktemp("memory")
    model = small_model()
    onnx.save(model, folder / "net.onnx")
    x = np.random.default_rng(1).normal(size=SHAPE).astype("float32")
    np.save(folder / "x.npy", x)
    engine = folder / "net.vke"
    status, text, _ = limited(1 << 16, f"--onnx={folder}/net.onnx", f"--saveEngine={engine}",
                              "--shapes=x:3x7", *ONCE)
    assert status == 0, text
    (want,) = tv.Engine.load(engine).run({"x": torch.from_numpy(x)}).values()
    return folder, x, want


@pytest.mark.parametrize("mib", LIMITS)
def test_building(mib, files, tmp_path):
    """The engine that is written is right, or there is none: the one before stays."""
    folder, x, want = files
    engine = tmp_path / "net.vke"
    engine.write_bytes(b"the one before")
    status, text, _ = limited(mib, f"--onnx={folder}/net.onnx", f"--saveEngine={engine}",
                              "--shapes=x:3x7", f"--cacheDir={tmp_path}/cache", *ONCE)
    if status != 0:
        check_failure(status, text, mib)
    if status == 0 or engine.read_bytes() != b"the one before":
        (got,) = tv.Engine.load(engine).run({"x": torch.from_numpy(x)}).values()
        torch.testing.assert_close(got, want)
    assert {path.name for path in tmp_path.iterdir()} <= {"net.vke", "cache"}


@pytest.mark.parametrize("mib", LIMITS)
def test_loading(mib, files, tmp_path):
    folder, _, want = files
    status, text, _ = limited(mib, f"--loadEngine={folder}/net.vke",
                              f"--loadInputs=x:{folder}/x.npy", f"--exportOutput={tmp_path}/",
                              *ONCE)
    if status != 0:
        check_failure(status, text, mib)
    for file in tmp_path.iterdir():
        torch.testing.assert_close(torch.from_numpy(np.load(file)), want)
    assert status != 0 or [file.name for file in tmp_path.iterdir()] == ["y.npy"]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    model, ids = saved("gpt2", folder)
    return folder, text_of(model.generate(ids, max_new_tokens=8, do_sample=False)[0], ids)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mib", LIMITS)
def test_generating(mib, decoder):
    folder, want = decoder
    status, text, printed = limited(mib, "generate", f"--model={folder}", f"--prompt={PROMPT}",
                                    "--tokens=8")
    if status != 0:
        check_failure(status, text, mib)
    else:
        assert printed == want
