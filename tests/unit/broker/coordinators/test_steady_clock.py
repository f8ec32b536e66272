"""The clock of coordinators: a change of the wall clock does not expire sessions."""

from odradek.broker.coordinators.steady_clock import SteadyClock


class Clocks:
    def __init__(self) -> None:
        self.wall = 1_000_000
        self.seconds = 50.0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall += int(seconds * 1000)


def test_clock_follows_the_wall_clock() -> None:
    clocks = Clocks()
    steady = SteadyClock(clocks)
    for _ in range(10):
        clocks.pass_by(1.5)
        assert steady.now_ms() == clocks.wall


def test_clock_adjusts_slowly_to_a_wall_clock_jump() -> None:
    for jump_ms in (3_600_000, -3_600_000):
        clocks = Clocks()
        steady = SteadyClock(clocks)
        before = steady.now_ms()
        clocks.wall += jump_ms
        clocks.pass_by(10)
        assert abs(steady.now_ms() - before - 10_000) <= 200
        clocks.pass_by(3_600_000)
        assert abs(steady.now_ms() - clocks.wall) <= 1


def test_clock_never_goes_back() -> None:
    clocks = Clocks()
    steady = SteadyClock(clocks)
    last = steady.now_ms()
    for number in range(1000):
        clocks.pass_by(0.001)
        clocks.wall += -7 if number % 2 else 5
        assert steady.now_ms() >= last
        last = steady.now_ms()
