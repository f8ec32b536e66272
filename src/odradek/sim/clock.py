"""The Clock port on virtual time: the clock of one computer, which may be skewed and may jump."""

from typing import Final

from odradek.sim.process import Process

# An arbitrary start date.
_EPOCH_MS: Final = 1_750_000_000_000


class ComputerClock:
    """The clocks of one computer; they survive crashes and power loss."""

    def __init__(self, monotonic_offset: float) -> None:
        # Deadlines must not be mixed with the loop's own time.
        self._monotonic_offset: Final = monotonic_offset
        self.skew_ms = 0

    def wall_ms(self, now: float) -> int:
        return _EPOCH_MS + self.skew_ms + int(now * 1000)

    def monotonic(self, now: float) -> float:
        return now + self._monotonic_offset


class VirtualClock:
    def __init__(self, computer: ComputerClock, process: Process) -> None:
        self._computer: Final = computer
        self._process: Final = process

    def wall_ms(self) -> int:
        return self._computer.wall_ms(self._process.now)

    def monotonic(self) -> float:
        return self._computer.monotonic(self._process.now)
