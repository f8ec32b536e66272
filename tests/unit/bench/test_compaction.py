"""The report of `make bench-compaction`."""

from bench.compaction import Latency, times_idle


def test_worse_of_produce_and_fetch_counts() -> None:
    idle = Latency(produce_p50=1, produce_p99=2, fetch_p50=1, fetch_p99=2, max=9)
    busy = Latency(produce_p50=9, produce_p99=3, fetch_p50=9, fetch_p99=5, max=99)
    assert times_idle({"loading": busy, "idle": idle, "compaction": busy}) == 2.5
