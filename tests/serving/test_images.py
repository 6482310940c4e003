"""The images of the Dockerfile, built by buildah from Debian's packages (scripts/images.sh)."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}


def why_not() -> str:
    missing = [tool for tool in ("buildah", "runc", "mmdebstrap") if not shutil.which(tool)]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install buildah runc mmdebstrap"
    unshared = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "true"],
                              capture_output=True, text=True)
    return f"no namespaces: {unshared.stderr.strip()}" if unshared.returncode else ""


MISSING = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


class Images:
    """buildah, as scripts/images.sh calls it."""

    def __init__(self, folder: Path):
        self._policy = folder / "policy.json"
        self._policy.write_text(json.dumps(POLICY))
        self._environment = {**os.environ, "BUILDAH_ISOLATION": "oci", "BUILDAH_RUNTIME": "runc"}
        self._made = []

    def buildah(self, *command, **more):
        return subprocess.run(["buildah", *map(str, command)], env=self._environment, text=True,
                              capture_output=True, **more)

    def container(self, image: str) -> str:
        made = self.buildah("from", "--pull-never", "--signature-policy", self._policy, image,
                            check=True).stdout.strip()
        self._made.append(made)
        return made

    def run(self, container: str, *command, volumes=(), check=True):
        """Without a network, as the image's user."""
        flags = [f"--volume={v}" for v in volumes]
        done = self.buildah("run", "--network=none", *flags, container, "--", *command)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def config(self, image: str) -> dict:
        shown = json.loads(self.buildah("inspect", "--type", "image", image, check=True).stdout)
        return shown["Docker"]["config"]

    def megabytes(self, container: str) -> float:
        folder = self.buildah("mount", container, check=True).stdout.strip()
        used = subprocess.run(["du", "-s", "--block-size=1000", folder], check=True, text=True,
                              capture_output=True).stdout
        return int(used.split()[0]) / 1000

    def remove(self):
        for container in self._made:
            self.buildah("rm", container)


def build(target: str) -> None:
    built = subprocess.run([ROOT / "scripts" / "images.sh", target], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    build("runtime")
    made = Images(tmp_path_factory.mktemp("images"))
    yield made
    made.remove()


# What tv.onnx, its fallback and tv.Config need is in the image.
PROGRAM = """
import numpy, onnx, torch_vulkan as tv
from onnx import TensorProto, helper
nodes = [helper.make_node("Tanh", ["x"], ["h"]), helper.make_node("NonZero", ["h"], ["y"])]
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])
y = helper.make_tensor_value_info("y", TensorProto.INT64, [1, "n"])
onnx.save(helper.make_model(helper.make_graph(nodes, "net", [x], [y]), ir_version=8,
                            opset_imports=[helper.make_opsetid("", 17)]), "/tmp/net.onnx")
with open("/tmp/net.yaml", "w") as file:
    file.write("{onnx_path: /tmp/net.onnx, min_block_size: 1, optimization_level: 0}")
session = tv.Config.from_yaml("/tmp/net.yaml").compile()
x = numpy.float32([0, 1, 0, 2, 3, 0])
(y,) = session.run(None, {"x": x})
assert y.tolist() == [[1, 3, 4]]
print(f"{len(session.engines)} engine, {len(session.native)} native, as eager")
"""
RUNTIME = "localhost/torch_vulkan:runtime"


@pytest.fixture(scope="module")
def runtime(images):
    return images.container(RUNTIME)


@pytest.fixture
def model(tmp_path):
    """A folder that everybody reads, with net.onnx."""
    folder = tmp_path / "model"
    folder.mkdir()
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 16])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["h"]),
                               helper.make_node("Softmax", ["h"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              folder / "net.onnx")
    folder.chmod(0o755)
    return folder


def entry(images) -> list[str]:
    return images.config(RUNTIME)["Entrypoint"]


def test_what_an_orchestrator_reads(images):
    config = images.config(RUNTIME)
    assert config["User"] == "vulkan"
    assert config["Entrypoint"] == ["/opt/torch_vulkan/image/entrypoint.sh"]
    assert config["Healthcheck"]["Test"] == ["CMD", "vkexec", "--listDevices"]
    labels = config["Labels"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    project = re.search(r"^project\(\S+ VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert labels["org.opencontainers.image.version"] == project[1]


def test_without_arguments(images, runtime):
    said = images.run(runtime, *entry(images)).stdout
    assert said.startswith("vkexec ") and "\n0: llvmpipe" in said


def test_health(images, runtime):
    assert "llvmpipe" in images.run(runtime, "vkexec", "--listDevices").stdout


def test_a_model_runs_as_a_user(images, runtime, model):
    assert images.run(runtime, "id", "-u").stdout.strip() == "10001"
    said = images.run(runtime, *entry(images), "--onnx=/model/net.onnx", "--duration=0",
                      "--iterations=3", volumes=[f"{model}:/model:ro"]).stdout
    assert "&&&& PASSED" in said


def test_engines_that_an_image_ships(images, model):
    """They are read where the user has none, by a user who may not write there."""
    builder = images.container(RUNTIME)
    command = [*entry(images), "--onnx=/model/net.onnx", "--duration=0", "--iterations=3"]
    cache = "/usr/share/torch_vulkan/cache"
    images.run(builder, *command, "--cacheDir=/workspace/built", volumes=[f"{model}:/model:ro"])
    images.buildah("config", "--user", "root", builder, check=True)
    images.run(builder, "sh", "-c",
               f"cp -r /workspace/built/. {cache} && rm -r /workspace/built && "
               f"chown -R root:root {cache} && chmod -R a+rX,go-w {cache}")
    images.buildah("config", "--user", "vulkan", builder, check=True)
    said = images.run(builder, *command, "--verbose", volumes=[f"{model}:/model:ro"])
    assert "&&&& PASSED" in said.stdout
    assert "Engine taken from the cache" in said.stdout
    refused = images.run(builder, "touch", f"{cache}/x", check=False)
    assert refused.returncode != 0


def test_what_is_in_it(images, runtime):
    assert images.run(runtime, "sh", "-c", "command -v python3", check=False).returncode != 0
    listed = json.loads(images.run(runtime, "cat", "/usr/share/torch_vulkan/sbom.spdx.json").stdout)
    assert listed["spdxVersion"] == "SPDX-2.3"
    packages = {p["name"]: p["versionInfo"] for p in listed["packages"]}
    shown = images.run(runtime, "dpkg-query", "-W", "-f", "${Package} ${Version}\\n").stdout
    assert packages.pop("torch_vulkan")
    assert packages == dict(line.split() for line in shown.splitlines())


def test_what_drivers_of_a_machine_are_linked_with(images, runtime):
    """NVIDIA's, by CDI, brings none of these."""
    listed = images.run(runtime, "/sbin/ldconfig", "-p").stdout
    for name in ("libEGL.so.1", "libGL.so.1", "libGLX.so.0", "libGLdispatch.so.0", "libX11.so.6",
                 "libX11-xcb.so.1", "libXext.so.6"):
        assert f"\t{name} " in listed, name


def test_size(images, runtime):
    assert images.megabytes(runtime) <= 450


def test_the_image_of_the_package(images):
    build("full")
    full = images.container("localhost/torch_vulkan:full")
    said = images.run(full, "python", "examples/quickstart.py").stdout
    assert "devices: llvmpipe" in said and "same as eager" in said
    assert images.run(full, "python", "-c", PROGRAM).stdout == "1 engine, 1 native, as eager\n"
    assert images.run(full, "id", "-u").stdout.strip() == "10001"
    assert images.megabytes(full) <= 1700
