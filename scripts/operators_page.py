#!/usr/bin/env python
"""Writes docs/operators.md from the registry and the results of tests/opinfo/run.py."""

import argparse
import collections
import functools
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "opinfo"))

import torch  # noqa: E402
from opinfo_results import Results, by_entry, verdict  # noqa: E402
from opinfo_samples import DTYPES, ENTRIES, pairs, samples  # noqa: E402

import torch_vulkan as tv  # noqa: E402

HEAD = """# Operators

Which operators run in engines: the registry is at the [end](#the-registry), and before it the
results of running torch's own op_db. Written by `scripts/operators_page.py` from
`tests/opinfo/run.py`, with `min_block_size=1`.

Each sample is compared with eager by torch.testing's defaults, with the entry's own overrides. A
result outside of these counts as right if it is at most twice as far from float64 as eager's are
(in float32 also within 1e-3 of the largest element, or torch.testing's absolute tolerance), or
within one unit in the last place. Also right are other positions of equal values (sort, topk, …),
one unit of 8-bit images that eager resizes in fixed point, and infinity from `polygamma(1, x)` at
its poles, whole x below 0, where eager gives what rounding left of 1 / sin(πx)².

- *in an engine*: every node that computes something runs in an engine.
- *native*: PyTorch runs at least one of them, for the reason given.
- *wrong*: a result that differs from eager's, or an error.
- *left out*: samples without compute nodes (views, shapes), and those that eager refuses. Checks
  that only raise an error (of singular matrices) compute nothing.
- *not run*: op_db has them, but they have not run on the device. On the H200 these are samples that
  torch 2.11, which runs there, does not have.

`run.py --form` takes the same samples with tensors that are transposed, offset, expanded
(stride 0), channels last, or hold infinities, NaN or denormals (`tests/opinfo/opinfo_forms.py`
lists what is open there). The errors of operators are in [accuracy.md](accuracy.md).

The first table is of lavapipe, on vectors of 8 lanes: every sample at float32 and every gradient,
in one run on 2026-11-22; at every other type one sample of each entry and up to three of some,
chosen by hash, in other runs. `make test-all` runs all of them.
"""


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


@functools.cache
def sizes() -> dict[str, int]:
    """How many samples op_db has of each type, gradients of float32 apart."""
    found = collections.Counter()
    for pair in [*pairs(), *pairs((torch.float32,), gradient=True)]:
        found[kind_of(pair.name + "/0")] += len(samples(pair))
    return found


def kind_of(sample: str) -> str:
    """"float16", "float32 gradients"."""
    _, dtype, *rest = sample.split("/")
    return dtype + (" gradients" if rest[0] == "grad" else "")


def counts(results: dict) -> str:
    """What became of the samples of each dtype."""
    kinds = collections.defaultdict(collections.Counter)
    for sample, outcome in results.items():
        kinds[kind_of(sample)][outcome["kind"]] += 1
    order = [str(d).removeprefix("torch.") for d in DTYPES]
    rows = []
    for name in [*order, "float32 gradients"]:
        k = kinds[name]
        if k:
            rows.append((name, k["engine"], k["native"], k["wrong"] + k["crash"],
                         k["free"] + k["skipped"], max(0, sizes()[name] - sum(k.values()))))
    rows.append(("all", *(sum(row[i] for row in rows) for i in range(1, 6))))
    return table(("samples of", "in an engine", "native", "wrong", "left out", "not run"), rows)


# Decompositions of matrices by names from before torch.linalg.
_LINALG = {"cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "logdet", "lu", "lu_solve",
           "lu_unpack", "matrix_exp", "norm_nuc", "ormqr", "pinverse", "qr", "svd", "svd_lowrank",
           "pca_lowrank", "triangular_solve"}


def family(entry: str) -> str:
    """The part of torch that an entry belongs to."""
    if entry in _LINALG:
        return "linalg"
    for prefix in ("linalg", "nn_functional", "fft", "special", "masked", "signal", "ops_nvprims"):
        if entry.startswith(prefix + "_"):
            return prefix.replace("nn_functional", "nn.functional")
    op = ENTRIES[entry]
    kinds = {"UnaryUfuncInfo": "unary", "BinaryUfuncInfo": "binary",
             "ReductionOpInfo": "reductions", "ForeachFuncInfo": "foreach",
             "ShapeFuncInfo": "shapes"}
    return kinds.get(type(op).__name__, "other")


def reason(outcomes: list[dict]) -> str:
    """The reasons of an entry, each once."""
    found = {}
    for outcome in outcomes:
        if outcome["kind"] == "native":
            for op, why in (outcome.get("native") or {}).items():
                short = why.split("': ")[-1].replace("|", "/")
                found[f"{op}: {short}" if op not in short else short] = None
    return "; ".join(list(found)[:2])[:220]


def elsewhere(device: str, results: dict) -> str:
    """What a run on another device found."""
    return f"On {device}:\n\n{counts(results)}"


def wrong(runs: dict[str, dict]) -> str:
    """Each wrong sample by name, of the devices' results."""
    lines = []
    for device, results in runs.items():
        for sample, outcome in sorted(results.items()):
            if outcome["kind"] in ("wrong", "crash"):
                lines.append(f"- `{sample}` ({device}): {outcome.get('reason', '')}")
    return "\n".join(["Wrong by that rule:", "", *lines]) if lines else ""


def families(entries: dict) -> str:
    """A table per family: how many entries are whole, and why the others are not."""
    groups = collections.defaultdict(list)
    for entry, outcomes in sorted(entries.items()):
        groups[family(entry)].append((entry, verdict(outcomes), outcomes))
    parts = []
    for name in sorted(groups, key=lambda n: (n == "linalg", n)):
        members = groups[name]
        whole = [entry for entry, v, _ in members if v == "engine"]
        rest = [(f"`{entry}`", f"{sum(o['kind'] == 'engine' for o in outs)} of "
                 f"{sum(o['kind'] not in ('free', 'skipped') for o in outs)}",
                 "WRONG" if v == "wrong" else reason(outs))
                for entry, v, outs in members if v in ("native", "wrong")]
        parts.append(f"### {name}\n\nWhole: {', '.join(f'`{e}`' for e in whole) or 'none'}.")
        if rest:
            parts.append(table(("entry", "in engines", "why not"), rest))
    return "\n\n".join(parts)


def summary(entries: dict) -> str:
    verdicts = {entry: verdict(outcomes) for entry, outcomes in entries.items()}

    def share(names):
        of = [v for e, v in verdicts.items() if names(e) and v in ("engine", "native", "wrong")]
        whole = sum(v == "engine" for v in of)
        return f"{whole} of {len(of)}" + (f" ({100 * whole / len(of):.1f} %)" if of else "")

    def named(kind):
        return ", ".join(f"`{e}`" for e, v in sorted(verdicts.items()) if v == kind)

    return "\n\n".join((
        f"Entries of op_db at float32 that compute something, neither draw random numbers nor have "
        f"sizes that depend on data, with all their samples in engines: "
        f"**{share(lambda e: True)}**; linalg alone {share(lambda e: family(e) == 'linalg')}, "
        f"the others {share(lambda e: family(e) != 'linalg')}.",
        f"Drawing random numbers is PyTorch's: {named('random')}.",
        f"Sizes or paths that depend on data are PyTorch's: {named('data')}."))


def registry() -> str:
    groups = collections.defaultdict(list)
    for info in tv.supported_ops():
        groups[info["kind"]].append(info)
    titles = {"pointwise": "Pointwise: fused into chains", "kernel": "Kernels of their own",
              "expand": "Made of other operators", "view": "Views: no kernel where consumers can "
              "read through strides"}
    parts = []
    for kind, title in titles.items():
        infos = [i for i in groups[kind] if not i["op"].startswith("tv::")]
        names = ", ".join(f"`{i['op'].removeprefix('aten::')}`" for i in infos)
        notes = [f"- `{i['op'].removeprefix('aten::')}`: {i['notes']}" for i in infos if i["notes"]]
        parts.append(f"### {title} ({len(infos)})\n\n{names}" + "".join(
            ["\n\n", "\n".join(notes)] if notes else []))
    return "\n\n".join(parts)


def with_registry(page: str) -> str:
    """The page with the list of the registry as it is now."""
    return page.partition("## The registry\n")[0] + f"## The registry\n\n{registry()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", help="folder that tests/opinfo/run.py wrote")
    parser.add_argument("others", nargs="*", metavar="DEVICE=FOLDER",
                        help="the same of other devices")
    parser.add_argument("--registry", action="store_true",
                        help="in place of results: only the list of the registry is written anew")
    parser.add_argument("--print", action="store_true", help="not to the page")
    args = parser.parse_args()
    if args.registry == (args.results is not None):
        parser.error("give a folder of results, or --registry")
    path = ROOT / "docs" / "operators.md"
    write = sys.stdout.write if args.print else path.write_text
    if args.registry:
        write(with_registry(path.read_text()))
        return
    results = Results(Path(args.results)).read()
    entries = by_entry(results)
    others = {device: Results(Path(where)).read()
              for device, where in (given.split("=", 1) for given in args.others)}
    parts = (HEAD.strip(), "## Counts", counts(results),
             *(elsewhere(device, found) for device, found in others.items()),
             wrong({"lavapipe": results, **others}), summary(entries),
             "## Entries of op_db at float32", families(entries), "## The registry\n")
    write(with_registry("\n\n".join(part for part in parts if part)))


if __name__ == "__main__":
    main()
