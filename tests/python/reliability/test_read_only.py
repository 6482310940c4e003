"""An installation that nothing can be written to: an image, a package of the system, a home that is
another's. Everything but the files that the user asks for is done without writing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import torch_vulkan as tv

from workloads.patience import patience

SCRIPT = """
import sys
from pathlib import Path
import torch, torch_vulkan as tv
from torch import nn

package, out = Path(tv.__file__).parent, Path(sys.argv[1])
for folder in (package, package / "lib", Path.home()):
    try:
        (folder / "written").touch()
    except OSError:
        continue
    raise SystemExit(f"{folder} can be written to")
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU()).eval().requires_grad_(False)
x = torch.randn(3, 6)
want, settings = model(x), {"min_block_size": 1}
torch.testing.assert_close(torch.compile(model, backend="vulkan", options=settings)(x), want)
program = tv.compile(model, [x], **settings)
for name in ("net.pt2", "net.pt"):
    kind = {"output_format": "torchscript"} if name == "net.pt" else {}
    tv.save(program, out / name, **kind)
    torch.testing.assert_close(tv.load(out / name)(x), want)
(engine,) = tv.engines(program)
engine.save(out / "net.vke")
(got,) = tv.Engine.load(out / "net.vke").run([x]).values()
torch.testing.assert_close(got, want)
print("written", tv.cache.stats()["written"], "done")
"""


def read_only(*command, out: Path) -> subprocess.CompletedProcess:
    """Runs it where `out` is all that can be written to."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bwrap is not installed (scripts/setup.sh --tests)")
    box = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", out, out]
    if subprocess.run([*box, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespace can be made here")
    environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"}
    return subprocess.run([*map(str, box), *map(str, command)], text=True, capture_output=True,
                          timeout=patience(300), env={**environment, "TMPDIR": str(out)})


def test_python(tmp_path):
    done = read_only(sys.executable, "-W", "ignore", "-c", SCRIPT, tmp_path, out=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "written 0 done" in done.stdout
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "net.pt2", "net.pt", "net.vke"}


def test_vkexec(tmp_path):
    """A build, with its engine and its reports where the user wants them, and a run."""
    vkexec = Path(tv.__file__).parent / "bin" / "vkexec"
    model = Path(__file__).parents[2] / "fuzz" / "corpus_onnx" / "add.onnx"
    engine = tmp_path / "net.vke"
    done = read_only(vkexec, f"--onnx={model}", f"--saveEngine={engine}", "--skipInference",
                     out=tmp_path)
    assert done.returncode == 0 and engine.exists(), done.stdout + done.stderr
    done = read_only(vkexec, f"--loadEngine={engine}", "--iterations=1", "--duration=0",
                     "--warmUp=0", f"--exportTimes={tmp_path / 'times.json'}", out=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "times.json").exists()
