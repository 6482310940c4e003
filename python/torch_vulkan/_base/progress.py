"""Standard error says how far the build of an engine is, or a calibration: one line that is drawn
anew on a terminal, one at the end elsewhere."""

import sys
import time

_WIDTH = 24
_INTERVAL_S = 0.1


class Progress:
    """Called by the compiler with (stage, done, total); `close` ends the line."""

    def __init__(self, name: str):
        self._name = name
        self._start = time.monotonic()
        self._shown = 0.0
        self._redraws = sys.stderr.isatty()  # a log gets one line, when all is done

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._redraws:
            return
        now = time.monotonic()
        if now - self._shown < _INTERVAL_S and done != total:
            return
        self._shown = now
        filled = _WIDTH * done // total if total else 0
        bar = "#" * filled + "." * (_WIDTH - filled)
        count = f"{done}/{total}" if total else ""
        self._write(f"{self._name} [{bar}] {stage} {count}")

    def close(self, what: str = "built") -> None:
        """Writes how long it took."""
        text = f"{self._name}: {what} in {time.monotonic() - self._start:.1f} s"
        if self._redraws:
            self._write(text)
        sys.stderr.write("\n" if self._redraws else f"{text}\n")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<79}")
        sys.stderr.flush()


def progress_for(name: str, wanted: bool | None) -> Progress | None:
    """None: only where standard error is a terminal."""
    if wanted is None:
        wanted = sys.stderr.isatty()
    return Progress(name) if wanted else None
