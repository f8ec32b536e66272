"""The bare loops move every byte; their CPU time is the limit next to which brokers are measured."""

from bench.workloads import limits
from bench.workloads.limits import CHUNK_BYTES, LOOPS


def test_every_loop_takes_cpu_time() -> None:
    found = limits.measure(8 * CHUNK_BYTES)
    assert set(found) == set(LOOPS)
    assert all(seconds > 0 for seconds in found.values())
