"""python -m torch_vulkan coverage MODULE:CALLABLE"""

import argparse
import ast
import importlib
import os
import re
import sys
from collections.abc import Mapping

import torch

from .._base.inputs import Input


def add_parser(commands) -> None:
    """Adds `coverage` to the sub-commands of python -m torch_vulkan."""
    parser = commands.add_parser(
        "coverage", help="what would run in engines, and why the rest would not",
        description="Prints the dry-run report of a model. Needs no device and builds nothing.")
    parser.add_argument(
        "model", metavar="MODULE:CALLABLE", type=_module_and_name,
        help="a function without arguments that returns a model, or a model and its inputs (a "
             "tuple of arguments, or a dict by keyword); or a model itself")
    parser.add_argument(
        "--input", action="append", default=[], metavar="SHAPE[:DTYPE]", type=_input,
        help="an argument of the model, in order, where the function returns no inputs: "
             "1x3x224x224, 1x128:int64; 1..16x3x224x224 for a range of batches")
    parser.add_argument("--target", help="device to plan for: index, part of its name, or the file "
                                         "of a device profile; default: a built-in GPU")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", type=_setting,
                        help="a setting of docs/settings.md, e.g. min_block_size=3")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON; -: print it")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--min-coverage", type=float, metavar="SHARE",
                        help="exit with 1 unless this share of the compute nodes is covered, e.g. "
                             "0.98")
    parser.set_defaults(run=_run)


def _module_and_name(text: str) -> tuple[str, str]:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise argparse.ArgumentTypeError(f"got {text!r}, want MODULE:CALLABLE")
    return module, name


def _input(text: str) -> Input:
    shape, _, dtype = text.partition(":")
    kind = getattr(torch, dtype or "float32", None)
    sizes = [re.fullmatch(r"(\d+)(?:\.\.(\d+))?", part) for part in shape.split("x") if shape]
    if not isinstance(kind, torch.dtype) or not all(sizes):
        raise argparse.ArgumentTypeError(f"got {text!r}, want e.g. 1x3x224x224 or 1x128:int64")
    low = [int(size[1]) for size in sizes]
    high = [int(size[2] or size[1]) for size in sizes]
    try:
        return Input(low, dtype=kind) if low == high else Input(
            min_shape=low, opt_shape=low, max_shape=high, dtype=kind)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _setting(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"got {text!r}, want NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _model(module: str, name: str):
    """(model, inputs); inputs None if the function returns none."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m finds modules
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"cannot import {module!r}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module!r} has no {name!r}")
        found = getattr(found, part)
    made = found if isinstance(found, torch.nn.Module) else found()
    model, inputs = made if isinstance(made, tuple) else (made, None)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not callable(model) or not (inputs is None or isinstance(inputs, (tuple, list, Mapping))):
        raise ValueError(f"{name}: got {type(model).__name__}, want a model, or (model, inputs)")
    return model, inputs


def _run(args) -> int:
    from .._program.dry_run import dry_run

    model, inputs = _model(*args.model)
    if args.input:
        inputs = args.input
    if inputs is None:
        raise ValueError("the model's inputs are missing: name them with --input, or return "
                         "(model, inputs)")
    report = dry_run(model, inputs, args.target, **dict(args.set))
    if args.json and args.json != "-":
        report.to_json(args.json)
    if args.html:
        report.to_html(args.html)
    print(report.to_json() if args.json == "-" else report.to_text(), flush=True)
    if args.min_coverage is not None and report.coverage < args.min_coverage:
        print(f"coverage {report.coverage:.1%} is below {args.min_coverage:.1%}", file=sys.stderr)
        return 1
    return 0
