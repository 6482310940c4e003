"""Engines that are tuned while others answer in their place (the setting background_tuning)."""

import atexit
import collections
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable

import torch

NICENESS = 10  # of the thread, and of those that it starts to compile

_log = logging.getLogger("torch_vulkan")


class Tuning:
    """What becomes of the engine that is to take the place of one of level 0.

    Attributes:
        name: of the engine.
        state: "waiting" for others, "running", "done" (it has taken its place), "failed", or
            "stopped" (the process ended, or forked, before).
        error: why it failed; else "".
    """

    def __init__(self, name: str):
        self.name, self.state, self.error = name, "waiting", ""

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state not in ("waiting", "running")

    def __repr__(self):
        return f"Tuning({self.name}: {self.state}{self.error and f', {self.error}'})"


class _Stopped(Exception):
    """The process ends: what was measured is kept, and the next one goes on from there."""


class _Worker:
    """Tunes one engine after another, in a thread that lives as long as there are some."""

    def __init__(self):
        self._changed = threading.Condition()
        self._waiting = collections.deque()
        self._open = {}  # id of each Tuning that is not over → it, and its engine, weakly
        self._thread = None
        self._stops = False

    def start(self, tuning: Tuning, engine, build) -> None:
        with self._changed:
            if self._stops:
                tuning.state = "stopped"
                return
            self._open[id(tuning)] = tuning, weakref.ref(engine)
            self._waiting.append((tuning, build))
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="torch_vulkan tuning",
                                            daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # the process has no thread left
                self._thread = None
                self._waiting.pop()
                self._end(tuning, "failed", str(error))

    def wait(self, timeout: float | None, engines=None) -> bool:
        """`engines`: of these alone."""
        def none_left():
            return not any(engines is None or any(engine() is one for one in engines)
                           for _, engine in self._open.values())

        with self._changed:
            return self._changed.wait_for(none_left, timeout)

    def stop(self) -> None:
        """Ends the work after the candidate that is being timed, and waits for that."""
        with self._changed:
            self._stops = True
            for tuning, _ in self._waiting:
                self._end(tuning, "stopped")
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join()

    def forget(self) -> None:
        """In a child, which has neither the thread nor a device."""
        for tuning, _ in self._open.values():
            tuning.state = "stopped"

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # where it may not be changed it stays as it is
            own = os.getpriority(os.PRIO_PROCESS, 0)  # on Linux of the thread
            os.setpriority(os.PRIO_PROCESS, 0, max(own, NICENESS))
        try:
            while (job := self._next()) is not None:
                self._do(*job)
        except BaseException as error:
            self._give_up(f"{type(error).__name__}: {error}")
            raise

    def _do(self, tuning: Tuning, build) -> None:
        state, why = "done", ""
        try:
            self._tune(tuning, build)
        except _Stopped:
            state = "stopped"
        except Exception as error:  # of any kind: the engine that there is goes on answering
            state, why = "failed", f"{type(error).__name__}: {error}"
            _log.warning("%s was not tuned in the background and stays as optimization_level=0 "
                         "made it: %s", tuning.name, why)
        with self._changed:
            self._end(tuning, state, why)

    def _give_up(self, why: str) -> None:
        """The thread ends before its work: nobody is to wait for what it leaves."""
        with self._changed:
            self._thread = None
            self._waiting.clear()
            for tuning, _ in [*self._open.values()]:
                self._end(tuning, "failed", why)

    def _next(self):
        with self._changed:
            if not self._waiting:
                self._thread = None
                return None
            tuning, build = self._waiting.popleft()
            tuning.state = "running"
            return tuning, build

    def _tune(self, tuning: Tuning, build) -> None:
        began = time.perf_counter()
        vke = build(self._go_on)
        self._go_on()
        engine = self._open[id(tuning)][1]()
        if engine is not None:  # else its program is gone; the engine is in the cache
            engine.replace(vke)
        _log.info("%s is tuned, in %.1f s", tuning.name, time.perf_counter() - began)

    def _go_on(self, *_progress) -> None:
        if self._stops:
            raise _Stopped

    def _end(self, tuning: Tuning, state: str, error: str = "") -> None:
        tuning.error, tuning.state = error, state
        del self._open[id(tuning)]
        self._changed.notify_all()


_worker = _Worker()


def start(tuning: Tuning, engine: torch.ScriptObject,
          build: Callable[[Callable], torch.Tensor]) -> None:
    """Tunes an engine in the background and gives it the place of `engine`.

    Args:
        tuning: is told what became of it.
        engine: a torch.classes.torch_vulkan.Engine; not kept alive.
        build: makes the file of the tuned engine; calls its argument now and then, which raises
            where the work has to end.
    """
    _worker.start(tuning, engine, build)


def wait_for(engines) -> None:
    """Waits until none of these torch.classes.torch_vulkan.Engine waits for a tuned one."""
    _worker.wait(None, [*engines])


def wait_for_tuning(timeout: float | None = None) -> bool:
    """Waits until every engine that the setting background_tuning left to a thread is tuned, or
    failed to be (`tv.compilations` says why).

    Args:
        timeout: the most seconds to wait; None: as long as it takes.

    Returns:
        True if nothing is left to tune, False if the time ran out first.
    """
    return _worker.wait(timeout)


def _stop() -> None:
    _worker.stop()


def _after_fork() -> None:
    global _worker
    _worker.forget()
    _worker = _Worker()


atexit.register(_stop)
os.register_at_fork(after_in_child=_after_fork)
