"""How many requests a client may make: a bucket of tokens for each, refilled with time."""

import threading
import time
from collections import OrderedDict

_MOST_CLIENTS = 10_000  # those that have not asked for longest are forgotten


class RateLimit:
    """Threads may share one.

    Args:
        per_second: requests, in the long run; 0: no limit.
        burst: requests at once.
    """

    def __init__(self, per_second: float, burst: int, clock=time.monotonic):
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait(self, client: str) -> float:
        """Takes a token. Returns 0, or the seconds until there is one."""
        if self._rate <= 0:
            return 0
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(client, (self._burst, now))
            tokens = min(self._burst, tokens + (now - then) * self._rate)
            taken = tokens >= 1
            self._buckets[client] = tokens - taken, now
            if len(self._buckets) > _MOST_CLIENTS:
                self._buckets.popitem(last=False)
        return 0 if taken else (1 - tokens) / self._rate
