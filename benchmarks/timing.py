"""Times by the host's clock."""

import statistics
import time


def per_call_us(call, calls=200, rounds=5):
    """Minimum and median over the rounds of the mean time of one call, in µs."""
    for _ in range(max(calls // 10, 1)):
        call()
    means = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - start) / calls * 1e6)
    return min(means), statistics.median(means)


def median_s(call, rounds, synchronise):
    """Median over the rounds of the time of a call and of `synchronise`, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        synchronise()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
