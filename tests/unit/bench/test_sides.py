"""CPU time and memory of processes."""

import os
import subprocess
import sys
import time

import pytest

from bench.workloads.sides import cpu_seconds, memory_mb, reset_peak


def test_cpu_time_includes_all_threads_and_ended_children() -> None:
    before, own = cpu_seconds(os.getpid()), time.process_time()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    assert cpu_seconds(os.getpid()) - before >= 0.28 + time.process_time() - own


def test_cpu_time_is_finer_than_clock_ticks() -> None:
    before, own = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - own < 0.002:
        pass
    assert cpu_seconds(os.getpid()) - before == pytest.approx(time.process_time() - own, abs=0.001)


def test_process_that_has_ended_uses_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert cpu_seconds(child.pid) == memory_mb(child.pid, "VmRSS") == 0


def test_peak_restarts_at_the_resident_memory() -> None:
    data = bytearray(200_000_000)
    data[::4096] = bytes(len(data[::4096])).replace(b"\0", b"x")
    assert memory_mb(os.getpid(), "VmHWM") > 200
    del data
    reset_peak(os.getpid())
    assert memory_mb(os.getpid(), "VmHWM") < memory_mb(os.getpid(), "VmRSS") + 50
