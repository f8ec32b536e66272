"""Kafka's rate, without any cached sum: the model of `RateWindows`."""

from dataclasses import dataclass


@dataclass
class _Window:
    start: int
    last: int
    total: float = 0.0


class NaiveRate:
    def __init__(self, count: int, window_ms: int) -> None:
        self._count = count
        self._window_ms = window_ms
        self._windows: list[_Window] = []
        self._current = 0

    def record(self, value: float, now: int) -> None:
        if not self._windows:
            self._windows.append(_Window(now, now))
        if now - self._windows[self._current].start >= self._window_ms:
            self._current = (self._current + 1) % (self._count + 1)
            if self._current == len(self._windows):
                self._windows.append(_Window(now, now))
            self._windows[self._current] = _Window(now, now)
        window = self._windows[self._current]
        window.total += value
        window.last = now

    def rate(self, now: int) -> float:
        covered = self.covered_ms(now)
        return sum(one.total for one in self._windows) / (covered / 1000)

    def covered_ms(self, now: int) -> int:
        for number, one in enumerate(self._windows):
            if now - one.last >= self._count * self._window_ms:
                self._windows[number] = _Window(now, now)
        elapsed = now - min(one.start for one in self._windows)
        whole = elapsed // self._window_ms
        return max(1, elapsed + max(0, self._count - 1 - whole) * self._window_ms)
