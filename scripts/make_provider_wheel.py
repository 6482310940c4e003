"""Makes a wheel of ONNX Runtime's provider, onnxruntime-ep-vulkan (`make onnxruntime-provider`),
and prints its path.

    make_provider_wheel.py [FOLDER]     dist/ where no folder is named

auditwheel takes in the compiler, the runtime and protobuf under file names of their own: a process
may hold them from torch_vulkan's wheel, too, of another version.
"""

import sys
import tempfile
from pathlib import Path

from make_wheel import ROOT, make_private, only, run, tools

PACKAGE = "onnxruntime_ep_vulkan"


def make_wheel(out: Path) -> Path:
    environment = tools()
    environment["LD_LIBRARY_PATH"] = str(ROOT / "python" / "torch_vulkan" / "lib")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q",
            "--no-build-isolation", "--no-deps", "-w", work,
            ROOT / "integrations" / "onnxruntime" / "python")
        run("auditwheel", "repair", "--strip", "--exclude", "libvulkan.so.1", "-w",
            work / "repaired", only(work, "*.whl"), env=environment)
        repaired = only(work / "repaired", "*.whl")
        run("wheel", "unpack", "-d", work, repaired, env=environment)
        package = only(work, f"{PACKAGE}-*[0-9]")
        taken = package / f"{PACKAGE}.libs"
        make_private(taken, [*taken.glob("libvk_*"),
                             package / PACKAGE / "libonnxruntime_providers_vulkan.so"],
                     environment)
        run("wheel", "pack", "-d", out, package, env=environment)
        return out / repaired.name


if __name__ == "__main__":
    print(make_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()))
