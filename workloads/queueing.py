"""A network of queues, event by event: customers take turns at stations and wait where all servers
are busy."""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Station:
    """`servers` at a time, first come first served; `seconds` draws how long one takes."""

    name: str
    servers: int
    seconds: Callable[[random.Random], float]
    busy: int = 0
    used: float = 0  # server-seconds
    queue: deque = field(default_factory=deque)
    waits: list = field(default_factory=list)
    longest: int = 0

    def utilisation(self, seconds: float) -> float:
        return self.used / (self.servers * seconds)


class Simulation:
    """Customers come as a Poisson process and visit their stations in order.

    Args:
        seconds: how long customers come.
        seed: of what is drawn.
    """

    def __init__(self, seconds: float, seed: int = 0):
        self.seconds, self._draw = seconds, random.Random(seed)
        self._events: list = []
        self._order = itertools.count()
        self.totals: dict[str, list[float]] = {}

    def come(self, kind: str, per_second: float,
             path: Callable[[random.Random], list[Station]]) -> None:
        """Customers of a kind, each of which takes its path."""
        now = 0.0
        while per_second and (now := now + self._draw.expovariate(per_second)) < self.seconds:
            self._at(now, _Customer(kind, now, iter(path(self._draw))))

    def _at(self, when: float, what) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def run(self) -> None:
        """Until all who came in time are served, or as long again has gone by."""
        while self._events and self._events[0][0] < 2 * self.seconds:
            now, _, what = heapq.heappop(self._events)
            if isinstance(what, _Customer):
                self._go_on(now, what)
            else:
                station, customer = what
                station.busy -= 1
                if station.queue:
                    self._serve(now, station, *station.queue.popleft())
                self._go_on(now, customer)

    def _go_on(self, now: float, customer: "_Customer") -> None:
        station = next(customer.path, None)
        if station is None:
            self.totals.setdefault(customer.kind, []).append(now - customer.came)
        elif station.busy < station.servers:
            self._serve(now, station, customer, now)
        else:
            station.queue.append((customer, now))
            station.longest = max(station.longest, len(station.queue))

    def _serve(self, now: float, station: Station, customer: "_Customer", since: float) -> None:
        station.busy += 1
        station.waits.append(now - since)
        taken = station.seconds(self._draw)
        station.used += min(taken, max(self.seconds - now, 0))
        self._at(now + taken, (station, customer))


@dataclass
class _Customer:
    kind: str
    came: float
    path: Iterator[Station]


def quantile(values: list[float], share: float) -> float:
    """0 where there are none."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else 0.0
