"""What of a test's parameters is left out of `make test`."""

import pytest


def slow_but(first, values, rows=False):
    """A parameter for each value; all but those in `first` are slow: part of `make test-all` alone.
    rows: a value is a row, of several names."""
    return [value if value in first else
            pytest.param(*(value if rows else (value,)), marks=pytest.mark.slow)
            for value in values]
