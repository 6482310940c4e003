"""What ran and what failed, as this process may be ended before it says so (scripts/part.sh)."""

import os


def record(what: str, name: str) -> None:
    """Appends to the file that TV_TEST_RECORD names, if it does; what: "ran" or "failed"."""
    if path := os.environ.get("TV_TEST_RECORD"):
        with open(path, "a") as file:
            file.write(f"{what} {name}\n")


def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that started it sees the report, too
        return
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message.partition("\n")[0] if crash else report.when
        record("failed", f"{report.nodeid}: {said}")
    if report.when == "call" and not report.skipped:
        record("ran", report.nodeid)
