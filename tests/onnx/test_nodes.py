"""Part of the onnx package's node tests, chosen by hash; `make test-all` runs all of them."""

import pytest

import node_tests


@pytest.mark.parametrize("name", node_tests.chosen(0.12))
def test_node(name):
    result = node_tests.run(name)
    if result.status == "skip":
        pytest.skip(result.reason)
    assert result.status == "pass", result.reason


@pytest.mark.slow
def test_every_node():
    """The share that passes, and nothing wrong."""
    results = [node_tests.run(name) for name in node_tests.cases()]
    assert [r for r in results if r.status == "wrong"] == []
    passed = sum(r.status == "pass" for r in results)
    assert passed >= 0.75 * len(results), f"{passed} of {len(results)} pass"
