"""The command `vkexec`: runs the native program inside the package.

A module of its own, because importing the package would import torch, which the program needs not.
"""

import importlib.util
import os
import pty
import subprocess
import sys
import tempfile
import threading
import tty
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


def _slimmed(arguments: list[str], folder: str) -> tuple[list[str], dict[str, str]]:
    """The arguments without --slim, with files that onnxslim wrote; and what these were made of."""
    out, made_of = [], {}
    rest = iter(argument for argument in arguments if argument != "--slim")
    for number, argument in enumerate(rest):
        flag, equals, path = argument.partition("=")
        if flag in ("--onnx", "--refitFromOnnx"):
            own = os.path.join(folder, str(number))  # of two files of one name
            os.mkdir(own)
            path = path if equals else next(rest, "")
            written = _slim(path, own)
            made_of[written] = path
            argument = f"{flag}={written}"
        out.append(argument)
    if not made_of:
        _refuse("--slim needs --onnx=FILE on the command line, the file that onnxslim rewrites")
    return out, made_of


def _relay(source: int, to, names: dict[str, str]):
    """Writes what comes from a descriptor until its end, with other names of files."""
    names = {old.encode(): new.encode() for old, new in names.items()}
    try:
        _copy(source, to, names)
    except BrokenPipeError:  # nobody reads any more, which the program is told when it writes again
        pass
    finally:
        os.close(source)


def _copy(source: int, to, names: dict[bytes, bytes]):
    held = b""
    while True:
        try:
            piece = os.read(source, 1 << 16)
        except OSError:  # how a terminal ends
            piece = b""
        held += piece
        for old, new in names.items():
            held = held.replace(old, new)
        # What may be the beginning of a name waits for the rest.
        waits = max((n for old in names for n in range(len(old)) if held.endswith(old[:n])),
                    default=0) if piece else 0
        to.write(held[:len(held) - waits])
        to.flush()
        held = held[len(held) - waits:]
        if not piece:
            return


def _terminal() -> tuple[int, int]:
    """A terminal to read from, and to write to; line ends stay as they are written."""
    source, into = pty.openpty()
    tty.setraw(into)
    return source, into


def _run(command: list, names: dict[str, str]) -> int:
    """Runs a program whose output calls files by other names, on terminals where this process has
    some; returns its status."""
    streams = [(stream.buffer, *(_terminal() if stream.isatty() else os.pipe()))
               for stream in (sys.stdout, sys.stderr)]
    (_, _, out), (_, _, err) = streams
    with subprocess.Popen(command, stdout=out, stderr=err) as program:
        relays = [threading.Thread(target=_relay, args=(source, to, names))
                  for to, source, _ in streams]
        os.close(out)
        os.close(err)
        for relay in relays:
            relay.start()
        for relay in relays:
            relay.join()
    return program.returncode


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
        arguments, made_of = _slimmed(arguments, folder)
        status = _run([program, *arguments], made_of)
    sys.exit(status)
