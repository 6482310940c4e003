"""The package onnxruntime-ep-vulkan, around a library that is there; scripts/make_provider_wheel.py
makes a wheel for other machines."""

import re
from pathlib import Path

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[3]
VERSION = re.search(r"^project\(.* VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


class OfAnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    name="onnxruntime-ep-vulkan", version=VERSION, license="Apache-2.0",
    description="ONNX Runtime's execution provider for Vulkan",
    long_description=(Path(__file__).parent / "README.md").read_text(),
    long_description_content_type="text/markdown", python_requires=">=3.10",
    packages=["onnxruntime_ep_vulkan"],
    package_data={"onnxruntime_ep_vulkan": ["libonnxruntime_providers_vulkan.so"]},
    distclass=WithLibrary, cmdclass={"bdist_wheel": OfAnyPython}, zip_safe=False)
