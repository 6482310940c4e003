"""What of a test's parameters, or of several tests, is left out of `make test`."""

import zlib

import pytest

from seeds import TURN, whose_turn


def slow_but(first, values, rows=False):
    """A parameter for each value; all but those in `first` are slow: part of `make test-all` alone.
    rows: a value is a row, of several names."""
    return [value if value in first else
            pytest.param(*(value if rows else (value,)), marks=pytest.mark.slow)
            for value in values]


def turns(shares, each=(), group=None):
    """Marks a test whose cases take turns: a run has one of `shares` parts of them, the next for
    each commit, and the others are slow. Of each value of the parameters in `each` it has a case.
    group: its cases take turns with those of the file's other tests of this group."""
    return pytest.mark.turns(shares, each, group)


def _values(item):
    return {name: repr(value) for name, value in item.callspec.params.items()} if hasattr(
        item, "callspec") else {}


# Where all tests take turns that have no mark of their own: kernels and what is promised of them.
FOLDERS = {"converters": 4, "accuracy": 2}


def _turns_of(item):
    """(shares, each, group) of a test; None: it is in every run."""
    if mark := item.get_closest_marker("turns"):
        return mark.args
    shares = FOLDERS.get(item.path.parent.name)
    return shares and (shares, (), item.path.parent.name)


def take_turns(items, turn=TURN):
    """Marks as slow those items whose turn it is not. Of a test without a group one case stays."""
    cases = {}
    for item in items:
        mark = _turns_of(item)
        if mark and not item.get_closest_marker("slow"):
            shares, each, group = mark
            key = (item.path, group, None if group else item.originalname)
            cases.setdefault(key, (shares, each, []))[2].append(item)
    for (_, group, _), (shares, each, members) in cases.items():
        if not group:
            shares = min(shares, len(members))
        if group:  # mixed, so that a part has not one value of a parameter alone
            members.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        taken = whose_turn([_values(item) for item in members], shares, each, turn)
        for place, item in enumerate(members):
            if place not in taken:
                item.add_marker(pytest.mark.slow)
