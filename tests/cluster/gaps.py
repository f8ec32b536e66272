"""The longest times without a response, by what the test did meanwhile."""

import threading
import time
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import Final, NamedTuple

from tests.patience import withheld_seconds

SAMPLE_S: Final = 0.02


class Gap(NamedTuple):
    seconds: float
    excused_s: float
    """The part in which processes waited for this computer's CPU or disk."""
    step: str
    """What the test did at its end."""

    @property
    def own_s(self) -> float:
        return max(0.0, self.seconds - self.excused_s)

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.excused_s:.2f} s of it the computer was busy) during: {self.step}"


class Gaps:
    """Each series is recorded by one thread. `begin_step` may be called by another."""

    def __init__(self) -> None:
        self._steps: Final[list[tuple[float, str]]] = []
        self._responses: Final[defaultdict[str, list[float]]] = defaultdict(list)
        self._withheld: Final[list[tuple[float, float]]] = []
        self._stop: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._sample, name="gaps", daemon=True)

    def start(self) -> None:
        self.begin_step("start")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def begin_step(self, name: str) -> None:
        self._steps.append((time.monotonic(), name))

    def on_response(self, series: str) -> None:
        self._responses[series].append(time.monotonic())

    def longest(self, prefix: str = "") -> list[Gap]:
        """The longest gap of each step in any series whose name begins with the prefix."""
        longest: dict[str, Gap] = {}
        starts = [at for at, _ in self._steps]
        chosen = [times for name, times in self._responses.items() if name.startswith(prefix)]
        for begin, end in (pair for times in chosen for pair in pairwise(times)):
            step = self._steps[max(0, bisect_right(starts, end) - 1)][1]
            if step not in longest or end - begin > longest[step].seconds:
                excused = min(end - begin, self._withheld_at(end) - self._withheld_at(begin))
                longest[step] = Gap(end - begin, excused, step)
        return sorted(longest.values(), reverse=True)

    def _sample(self) -> None:
        while not self._stop.is_set():
            self._withheld.append((time.monotonic(), withheld_seconds()))
            self._stop.wait(SAMPLE_S)

    def _withheld_at(self, at_s: float) -> float:
        place = bisect_right(self._withheld, (at_s, float("inf")))
        return self._withheld[max(0, place - 1)][1]
