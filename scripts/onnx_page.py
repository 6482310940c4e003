"""Writes the lists at the end of docs/onnx.md: the importer's registry, and which of the onnx
package's backend tests are refused.

    python scripts/onnx_page.py
    python scripts/onnx_page.py --check      # the page is what this would write
"""

import argparse
import collections
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "onnx.md"
sys.path.insert(0, str(ROOT / "tests" / "onnx"))


def operators() -> str:
    """The section that lists the translated operators."""
    import torch_vulkan as tv

    names = tv.onnx.supported_ops()
    return (f"## Operators ({len(names)})\n\nAn operator that is not listed is "
            "refused with the name of its node.\n"
            "\n" + ", ".join(f"`{name}`" for name in names) + ".\n")


def family(name: str) -> str:
    """What a case tests: its name up to the first word that tells it from others."""
    words = name.removeprefix("test_").split("_")
    return words[0] if words[0] not in ("basic", "sce", "nllloss") else "_".join(words[:2])


def backend_tests() -> str:
    """The section on the backend tests: counts, and a table of reasons."""
    import node_tests as tests

    refused = tests.listed()
    count, version = tests.listed_cases()
    reasons = collections.defaultdict(list)
    for name, reason in refused.items():
        reasons[reason].append(family(name))
    rows = "".join(
        f"| {reason} | {len(families)} | {', '.join(f'`{f}`' for f in sorted(set(families)))} |\n"
        for reason, families in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])))
    passed = count - len(refused)
    return (f"## Backend tests\n\nOf the {count} cases of onnx {version}'s backend tests (single "
            "operators, and small\n"
            f"models of old exporters) {passed} ({passed / count:.1%}) pass and {len(refused)} are "
            "refused: those in\n`tests/onnx/refused_cases.txt`; a test fails if the list is no "
            "longer right.\n\n"
            f"| why | cases | of |\n|---|---|---|\n{rows}")


def page() -> str:
    """The page as it stands, with lists of today."""
    head = PAGE.read_text().partition("\n## Operators (")[0]
    return f"{head}\n{operators()}\n{backend_tests()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if page() != PAGE.read_text():
            sys.exit(f"{PAGE} is not of this registry and list: run scripts/onnx_page.py")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
