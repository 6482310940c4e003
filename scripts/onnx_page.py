"""Writes docs/onnx.md from scripts/onnx_page.head.md, the importer's registry and a run of the onnx
package's node tests.

    python scripts/onnx_page.py              # some minutes
    python scripts/onnx_page.py --check      # the page's list of operators is the registry's
"""

import argparse
import collections
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, HEAD = ROOT / "docs" / "onnx.md", ROOT / "scripts" / "onnx_page.head.md"
sys.path.insert(0, str(ROOT / "tests" / "onnx"))


def operators() -> str:
    """The section that lists the translated operators."""
    import torch_vulkan as tv

    names = tv.onnx.supported_ops()
    return (f"## Operators ({len(names)})\n\nWhat is not listed is refused, with the node's name.\n"
            "\n" + ", ".join(f"`{name}`" for name in names) + ".\n")


def family(name: str) -> str:
    """What a case tests: its name up to the first word that tells it from others."""
    words = name.removeprefix("test_").split("_")
    return words[0] if words[0] not in ("basic", "sce", "nllloss") else "_".join(words[:2])


def reason_of(text: str) -> str:
    """A refusal in few words: its first line, without the names of the model."""
    lines = [line.strip() for line in text.splitlines()]
    line = lines[1] if len(lines) > 1 else lines[0]
    line = re.sub(r"^\[onnx\] ", "", line)
    line = re.sub(r'^\[(\w+) "[^"]*"\]', r"\1:", line)
    line = re.sub(r"(input|initializer|output) \"[^\"]*\"", r"\1", line)
    return re.sub(r"'[^']*': ", "", line)


def node_tests() -> str:
    """The section on the node tests: counts, and a table of reasons."""
    import onnx

    import node_tests as tests

    results = [tests.run(name) for name in tests.cases()]
    counts = collections.Counter(result.status for result in results)
    reasons = collections.defaultdict(list)
    for result in results:
        if result.status == "skip":
            reasons[reason_of(result.reason)].append(family(result.name))
    wrong = "".join(f"- `{r.name}`: {r.reason.splitlines()[0]}\n" for r in results
                    if r.status == "wrong")
    rows = "".join(
        f"| {reason} | {len(families)} | {', '.join(f'`{f}`' for f in sorted(set(families)))} |\n"
        for reason, families in sorted(reasons.items(), key=lambda item: -len(item[1])))
    share = counts["pass"] / len(results)
    return (f"## Node tests\n\nOf the {len(results)} node tests of onnx {onnx.__version__}:\n\n"
            f"| pass | skipped | wrong |\n|---|---|---|\n"
            f"| {counts['pass']} ({share:.1%}) | {counts['skip']} | {counts['wrong']} |\n\n"
            f"{wrong}Why they are skipped:\n\n| reason | cases | of |\n|---|---|---|\n{rows}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if operators() not in PAGE.read_text():
            sys.exit(f"{PAGE} is not of this registry: run scripts/onnx_page.py")
        return
    PAGE.write_text(f"{HEAD.read_text()}\n{operators()}\n{node_tests()}")


if __name__ == "__main__":
    main()
