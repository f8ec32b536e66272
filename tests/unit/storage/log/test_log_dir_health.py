"""One slow write moves appends to a thread; only many fast writes over a minute move them back. A job that takes long
starts a probe, and a probe that takes long shows that the disk is stalled, and then that it hangs."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.log.log_dir_health import (
    FAST_SECONDS_MIN,
    FAST_WRITES_MIN,
    HUNG_SECONDS,
    SLOW_SECONDS,
    STALLED_SECONDS,
    SUSPECT_SECONDS,
    LogDirHealth,
    Verdict,
)

# The delay of a thread that waits for the GIL: the disk is fast nevertheless.
QUICK_SECONDS = SLOW_SECONDS / 2


def test_fast_writes_stay_on_the_event_loop() -> None:
    health = LogDirHealth()
    for number in range(1000):
        health.on_write(QUICK_SECONDS, number)
    assert not health.is_slow


def test_one_slow_write_moves_appends_to_a_thread() -> None:
    health = LogDirHealth()
    health.on_write(SLOW_SECONDS, 1.0)
    assert health.is_slow


def test_return_to_the_event_loop_needs_many_fast_writes() -> None:
    health = LogDirHealth()
    health.on_write(SLOW_SECONDS, 0.0)
    later = 10 * FAST_SECONDS_MIN
    for _ in range(FAST_WRITES_MIN - 1):
        health.on_write(QUICK_SECONDS, later)
    assert health.is_slow
    health.on_write(QUICK_SECONDS, later)
    assert not health.is_slow


def test_return_to_the_event_loop_needs_time() -> None:
    health = LogDirHealth()
    health.on_write(SLOW_SECONDS, 10.0)
    for _ in range(10 * FAST_WRITES_MIN):
        health.on_write(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN * 0.99)
    assert health.is_slow
    health.on_write(QUICK_SECONDS, 10.0 + FAST_SECONDS_MIN)
    assert not health.is_slow


def test_slow_write_restarts_the_count_of_fast_writes() -> None:
    health = LogDirHealth()
    health.on_write(SLOW_SECONDS, 0.0)
    later = 10 * FAST_SECONDS_MIN
    for _ in range(FAST_WRITES_MIN - 1):
        health.on_write(QUICK_SECONDS, later)
    health.on_write(SLOW_SECONDS, later)
    for _ in range(FAST_WRITES_MIN + 1):
        health.on_write(QUICK_SECONDS, later)
    assert health.is_slow
    health.on_write(QUICK_SECONDS, later + FAST_SECONDS_MIN)
    assert not health.is_slow


def test_log_dir_that_the_node_can_do_without_stays_in_its_thread() -> None:
    health = LogDirHealth(stays_in_thread=True)
    assert health.is_slow
    for second in range(1000):
        health.on_write(0.0, second)
    assert health.is_slow


class Watched:
    """A disk whose health is looked at every second."""

    def __init__(self) -> None:
        self.health = LogDirHealth()
        self.now = 0.0
        self.health.tick(self.now)

    def wait(self, seconds: float) -> list[Verdict]:
        """The verdicts meanwhile."""
        verdicts = []
        for _ in range(round(seconds)):
            self.now += 1.0
            verdict = self.health.tick(self.now)
            if verdict is not None:
                verdicts.append(verdict)
        return verdicts


def test_disk_without_jobs_is_left_alone() -> None:
    disk = Watched()
    assert disk.wait(1000) == []
    number = disk.health.on_job_start()
    assert disk.wait(SUSPECT_SECONDS - 1) == []
    disk.health.on_job_end(number)
    assert disk.wait(1000) == []


def test_many_short_jobs_are_no_suspicion() -> None:
    disk = Watched()
    previous = disk.health.on_job_start()
    for _ in range(100):
        number = disk.health.on_job_start()
        assert disk.wait(1) == []
        disk.health.on_job_end(previous)
        previous = number


def test_long_job_on_a_disk_that_responds_is_only_probed() -> None:
    disk = Watched()
    disk.health.on_job_start()
    for _ in range(20):
        assert disk.wait(SUSPECT_SECONDS) == [Verdict.PROBE]
        disk.health.on_probe_end()
        assert not disk.health.is_stalled


def test_disk_that_does_not_respond_is_stalled_and_then_hangs() -> None:
    disk = Watched()
    disk.health.on_job_start()
    assert disk.wait(SUSPECT_SECONDS) == [Verdict.PROBE]
    assert disk.wait(STALLED_SECONDS - 1) == []
    assert disk.wait(1) == [Verdict.STALLED]
    assert (disk.health.is_stalled, disk.health.is_hung) == (True, False)
    assert disk.wait(HUNG_SECONDS - STALLED_SECONDS - 1) == []
    assert disk.wait(1) == [Verdict.HUNG]
    assert (disk.health.is_stalled, disk.health.is_hung) == (True, True)
    # It is reported once, and for good: the log dir is offline.
    assert disk.wait(1000) == []
    disk.health.on_probe_end()
    assert (disk.health.is_stalled, disk.health.is_hung) == (True, True)


def test_stalled_disk_that_responds_serves_again() -> None:
    disk = Watched()
    number = disk.health.on_job_start()
    assert disk.wait(SUSPECT_SECONDS + STALLED_SECONDS) == [Verdict.PROBE, Verdict.STALLED]
    disk.health.on_probe_end()
    disk.health.on_job_end(number)
    assert not disk.health.is_stalled
    assert disk.wait(1000) == []


def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    disk = Watched()
    disk.health.on_job_start()
    assert disk.wait(SUSPECT_SECONDS) == [Verdict.PROBE]
    disk.now += 10 * HUNG_SECONDS
    assert disk.wait(1) == []
    assert not disk.health.is_stalled


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("wait"), st.floats(0.0, 120.0)),
            st.tuples(st.sampled_from(["start", "end", "respond"]), st.just(0.0)),
        ),
        max_size=200,
    )
)
def test_a_disk_hangs_only_after_its_probe_was_pending_for_long_enough(steps: list[tuple[str, float]]) -> None:
    disk, jobs, pending = LogDirHealth(), [], None
    now = 0.0
    disk.tick(now)
    for step, seconds in steps:
        if step == "start":
            jobs.append(disk.on_job_start())
        elif step == "end" and jobs:
            disk.on_job_end(jobs.pop())
        elif step == "respond" and pending is not None:
            disk.on_probe_end()
            pending = None
        elif step == "wait":
            now += seconds
            verdict = disk.tick(now)
            if verdict is Verdict.PROBE:
                assert jobs and pending is None
                pending = now
            elif verdict is Verdict.STALLED:
                assert pending is not None and now - pending >= STALLED_SECONDS
            elif verdict is Verdict.HUNG:
                assert pending is not None and now - pending >= HUNG_SECONDS
        assert disk.is_stalled or not disk.is_hung
        assert disk.is_hung or not disk.is_stalled or pending is not None
