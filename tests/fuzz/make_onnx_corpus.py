"""Writes the seed corpus of fuzz_onnx: one small model of the onnx package's node tests for each
operator, and a few with external data, functions and loops.

    python tests/fuzz/make_onnx_corpus.py
"""

import warnings
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus_onnx"


def main():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    CORPUS.mkdir(exist_ok=True)
    seen = set()
    for case in load_model_tests(kind="node"):
        operators = frozenset(node.op_type for node in case.model.graph.node)
        data = case.model.SerializeToString()
        if operators <= seen or len(data) > 3000:
            continue
        seen |= operators
        (CORPUS / f"{case.name.removeprefix('test_')}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()
