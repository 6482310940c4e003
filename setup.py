"""Builds the native libraries with CMake. Metadata are in setup.cfg, but for what is known
elsewhere: the version (CMakeLists.txt) and the torch that the libraries are built against."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def project_version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(\S+ VERSION (\S+)", text, re.MULTILINE)[1]


def supported_torch():
    """The first minor version that the package is built for, and the first that it is not."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    (bounds,) = (r.removeprefix("torch") for r in requires if r.startswith("torch>"))
    first, behind = re.fullmatch(r">=(\d+\.\d+),<(\d+\.\d+)", bounds).groups()
    return first, behind


def numbers(minor_version):
    return [int(part) for part in minor_version.split(".")]


def torch_requirement():
    """The minor version that is here: the libraries run with no other."""
    try:
        here = version("torch")
    except PackageNotFoundError:  # `egg_info` alone: nothing is built without torch
        return "torch"
    minor = ".".join(here.split(".")[:2])
    first, behind = supported_torch()
    if not numbers(first) <= numbers(minor) < numbers(behind):
        # pip reads no bound of pyproject.toml with --no-build-isolation.
        sys.exit(f"torch_vulkan is made for torch>={first},<{behind}, and torch {here} is here: "
                 "install one of those, or move the bound in pyproject.toml and run the tests")
    return f"torch=={minor}.*"


class CMakeBuild(build_ext):
    """Runs CMake once; the libraries land in torch_vulkan/lib of the tree or of the wheel."""

    def run(self):
        package = ROOT / "python" if self.inplace else Path(self.build_lib).resolve()
        lib_dir = package / "torch_vulkan" / "lib"
        # An editable install shares the developer's build folder, so nothing is compiled twice.
        build_dir = ROOT / ("build" if self.inplace else "build-wheel")
        build_dir.mkdir(parents=True, exist_ok=True)
        options = [
            f"-DTV_LIB_DIR={lib_dir}",
            f"-DPython_EXECUTABLE={sys.executable}",
            "-DCMAKE_BUILD_TYPE=Release",
        ]
        if not self.inplace:
            options += ["-DTV_WHEEL=ON", "-DTV_TESTS=OFF", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"]
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(["cmake", "-S", ROOT, "-B", build_dir, *generator, *options], check=True)
        targets = ["--target", "_C", "torch_vulkan", "torch_vulkan_script", "vkexec"]
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        subprocess.run(["cmake", "--build", build_dir, "-j", jobs, *targets], check=True)

    def get_outputs(self):
        package = Path(self.build_lib) / "torch_vulkan"
        return [str(p) for folder in ("lib", "bin") for p in (package / folder).glob("*")]

    def copy_extensions_to_source(self):
        pass


class BinaryDistribution(Distribution):
    """Marks the wheel as specific to this Python and platform."""

    def has_ext_modules(self):
        return True


setup(
    version=project_version(),
    install_requires=[torch_requirement()],
    cmdclass={"build_ext": CMakeBuild},
    distclass=BinaryDistribution,
    ext_modules=[Extension("torch_vulkan.lib._C", sources=[])],
)
