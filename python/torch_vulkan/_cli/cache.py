"""python -m torch_vulkan cache …"""

import sys

from .. import cache
from .._base.units import size


def add_parser(commands) -> None:
    """Adds `cache` to the sub-commands of python -m torch_vulkan."""
    parser = commands.add_parser("cache", help="look after the engines on disk")
    parser.add_argument("--dir", help="the cache directory; default: the user's")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("info", help="where it is and what it holds").set_defaults(run=_info)
    listing = actions.add_parser("list", help="its entries, the last used first")
    listing.add_argument("--keys", action="store_true", help="with what each was built for")
    listing.set_defaults(run=_list)
    actions.add_parser("verify", help="read and check every entry").set_defaults(run=_verify)
    actions.add_parser("clear", help="remove every entry").set_defaults(run=_clear)
    for action, run, text in (
            ("export", _export, "write all entries to one file, to ship in an image"),
            ("import", _import, "take the entries of such a file, which must be trusted")):
        sub = actions.add_parser(action, help=text)
        sub.add_argument("file")
        sub.set_defaults(run=run)


def _kinds(kinds) -> None:
    if not kinds:
        print("  empty")
    for kind, found in sorted(kinds.items()):
        bad = f", {found['bad']} set aside as bad" if found["bad"] else ""
        print(f"  {kind}: {found['entries']} entries, {size(found['size_bytes'])}{bad}")


def _info(args) -> int:
    found = cache.info(args.dir)
    print(f"cache: {found['directory']}")
    _kinds(found["kinds"])
    print(f"system: {found['system_directory']}")
    if found["system_refused"]:
        print(f"  not used: {found['system_refused']}")
    else:
        _kinds(found["system_kinds"])
    print("program:")
    for line in found["program"].splitlines():
        print(f"  {line}")
    return 0


def _list(args) -> int:
    for entry in cache.entries(args.dir):
        print(f"{entry.kind:8} {entry.name[:16]} {size(entry.size_bytes):>10}  "
              f"{cache.age(entry.used)} ago{'' if entry.state == 'good' else '  ' + entry.state}")
        if args.keys and entry.state == "good":
            for line in entry.key().splitlines():
                print(f"    {line[:160]}")
    return 0


def _verify(args) -> int:
    found = cache.verify(args.dir)
    for path, fault in sorted(found.bad.items()):
        print(f"{path}: {fault}", file=sys.stderr)
    print(f"{found.good} good, {len(found.bad)} bad")
    return 1 if found.bad else 0


def _clear(args) -> int:
    print(f"{cache.clear(args.dir)} entries removed")
    return 0


def _export(args) -> int:
    print(f"{cache.export_bundle(args.file, args.dir)} entries written to {args.file}")
    return 0


def _import(args) -> int:
    print(f"{cache.import_bundle(args.file, args.dir)} entries taken from {args.file}")
    return 0
