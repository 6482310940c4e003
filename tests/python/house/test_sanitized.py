"""ThreadSanitizer looks at every C++ test that starts threads (scripts/sanitized.sh)."""

import fnmatch
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_suite_that_starts_threads_is_among_them():
    script = (ROOT / "scripts" / "sanitized.sh").read_text()
    patterns = re.search(r"tsan '--gtest_filter=([^']+)'", script)[1].split(":")
    suites = set()
    for file in (ROOT / "tests" / "cpp").rglob("test_*.cpp"):
        text = file.read_text()
        if re.search(r"std::(jthread|thread|async)\b", text):
            suites |= set(re.findall(r"^TEST(?:_F|_P)?\((\w+),", text, re.MULTILINE))
    assert len(suites) > 10
    missing = {suite for suite in suites
               if not any(fnmatch.fnmatchcase(f"{suite}.any", pattern) for pattern in patterns)}
    assert not missing
