"""python -m torch_vulkan: commands of the package."""

import argparse
import sys

from ._base.errors import UNAVAILABLE, DeviceError
from ._cli import cache, coverage
from ._device import device_list


def main(arguments=None) -> int:
    """Runs a command; returns the exit status: 0, 1 (failed), 2 (bad command line)."""
    parser = argparse.ArgumentParser(prog="python -m torch_vulkan", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cache.add_parser(commands)
    coverage.add_parser(commands)
    device_list.add_parser(commands)
    args = parser.parse_args(arguments)
    try:
        return args.run(args)
    except (ValueError, OSError, DeviceError, *UNAVAILABLE) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
