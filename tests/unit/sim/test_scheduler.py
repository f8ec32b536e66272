import pytest

from odradek.sim.scheduler import Livelock, Runnable, Scheduler, Turn


class Worker(Runnable):
    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def run(self, turn: Turn) -> None:
        assert turn.callback is not None
        turn.callback(*turn.args)

    def turn(self, name: str) -> Turn:
        return Turn(self, 0.0, self.ran.append, (name,))


def test_time_jumps_to_the_next_callback() -> None:
    scheduler = Scheduler()
    seen: list[tuple[str, float]] = []
    for seconds, name in ((2.0, "late"), (1.0, "early"), (1.0, "early too")):
        scheduler.call_at(seconds, lambda name=name: seen.append((name, scheduler.now)))
    assert not scheduler.run(until=10.0)
    assert seen == [("early", 1.0), ("early too", 1.0), ("late", 2.0)]
    assert scheduler.now == 10.0


def test_run_stops_when_finished() -> None:
    scheduler = Scheduler()
    seen: list[float] = []
    for seconds in (1.0, 2.0, 3.0):
        scheduler.call_at(seconds, seen.append, seconds)
    assert scheduler.run(until=10.0, finished=lambda: len(seen) == 2)
    assert (seen, scheduler.now) == ([1.0, 2.0], 2.0)


def test_cancelled_callbacks_do_not_run() -> None:
    scheduler = Scheduler()
    turn = scheduler.call_after(1.0, pytest.fail, "cancelled")
    turn.cancel()
    scheduler.run(until=2.0)
    assert turn.cancelled()


def test_callbacks_of_a_busy_process_run_later_in_order() -> None:
    scheduler, worker, other = Scheduler(), Worker(), Worker()
    worker.busy_until = 5.0
    scheduler.soon(worker.turn("first"))
    scheduler.soon(other.turn("at once"))
    scheduler.at(1.0, worker.turn("second"))
    scheduler.at(5.0, worker.turn("third"))
    scheduler.run(until=4.0)
    assert (worker.ran, other.ran) == ([], ["at once"])
    scheduler.run(until=6.0)
    assert worker.ran == ["first", "second", "third"]


def test_a_process_that_becomes_busy_again_waits_again() -> None:
    scheduler, worker = Scheduler(), Worker()
    worker.busy_until = 2.0
    scheduler.soon(worker.turn("one"))
    scheduler.call_at(1.0, lambda: setattr(worker, "busy_until", 4.0))
    scheduler.run(until=3.0)
    assert worker.ran == []
    scheduler.run(until=5.0)
    assert worker.ran == ["one"]


def test_callbacks_of_dead_processes_do_not_run() -> None:
    scheduler, worker = Scheduler(), Worker()
    scheduler.soon(worker.turn("soon"))
    scheduler.at(1.0, worker.turn("later"))
    worker.is_alive = False
    scheduler.run(until=2.0)
    assert worker.ran == []


def test_endless_callbacks_at_one_time_raise_livelock() -> None:
    scheduler, worker = Scheduler(), Worker()

    def again() -> None:
        scheduler.soon(Turn(worker, 0.0, again, ()))

    again()
    with pytest.raises(Livelock):
        scheduler.run(until=1.0)


def test_endless_timers_at_one_time_raise_livelock() -> None:
    scheduler, worker = Scheduler(), Worker()

    def again() -> None:
        scheduler.at(scheduler.now, Turn(worker, 0.0, again, ()))

    again()
    with pytest.raises(Livelock):
        scheduler.run(until=1.0)
