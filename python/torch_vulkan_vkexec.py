"""The command `vkexec`: runs the native program inside the package.

A module of its own, because importing the package would import torch, which the program needs not.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_BAD_COMMAND = 2  # as of the native program
_HELP = "  --slim    onnxslim rewrites the files of --onnx and --refitFromOnnx first"


def _refuse(message: str):
    print(f"vkexec: {message}", file=sys.stderr)
    sys.exit(_BAD_COMMAND)


def _slim(path: str, folder: str) -> str:
    """A file, as onnxslim writes it."""
    missing = [name for name in ("onnx", "onnxslim") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"vkexec: --slim needs the package {' and '.join(missing)}: pip install onnxslim. "
                 "Engines do not need it: constants are folded, and what nothing reads is left "
                 "out, when they are built")
    import onnx
    import onnxslim

    try:
        model = onnx.load(path)  # with its external data
        before = len(model.graph.node)
        model = onnxslim.slim(model)
        into = os.path.join(folder, os.path.basename(path))
        onnx.save(model, into, save_as_external_data=model.ByteSize() >= 2**31 - 2**20,
                  location="weights")
    except Exception as error:  # of many types
        sys.exit(f"vkexec: --slim: {path}: {error}")
    print(f"onnxslim: {path}: {len(model.graph.node)} of {before} nodes left", flush=True)
    return into


def _slimmed(arguments: list[str], folder: str) -> list[str]:
    """The arguments without --slim, with files that onnxslim wrote."""
    out, found = [], False
    rest = iter(argument for argument in arguments if argument != "--slim")
    for number, argument in enumerate(rest):
        flag, equals, path = argument.partition("=")
        if flag in ("--onnx", "--refitFromOnnx"):
            found = True
            own = os.path.join(folder, str(number))  # of two files of one name
            os.mkdir(own)
            argument = f"{flag}={_slim(path if equals else next(rest, ''), own)}"
        out.append(argument)
    if not found:
        _refuse("--slim needs --onnx=FILE on the command line, the file that onnxslim rewrites")
    return out


def main():
    """Becomes the native program, or with --slim runs it; does not return."""
    package = importlib.util.find_spec("torch_vulkan").submodule_search_locations[0]
    program = Path(package) / "bin" / "vkexec"
    if not program.exists():
        sys.exit(f"vkexec: {program} is missing; build it with `ninja -C build vkexec`")
    arguments = sys.argv[1:]
    if any(argument.startswith("--slim=") for argument in arguments):
        _refuse("--slim takes no value")
    if arguments in (["--help"], ["-h"]):
        done = subprocess.run([program, "--help"])
        print(f"\nOf the vkexec that pip installs:\n{_HELP}")
        sys.exit(done.returncode)
    if "--slim" not in arguments:
        os.execv(program, ["vkexec", *arguments])
    with tempfile.TemporaryDirectory(prefix="vkexec-slim-") as folder:
        # Lines that name the file name the one in that folder; _slim says which it was.
        done = subprocess.run([program, *_slimmed(arguments, folder)])
    sys.exit(done.returncode)
