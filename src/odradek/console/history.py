"""Time series collected while pages are open: bounded, and kept in memory only."""

from collections import OrderedDict, deque
from typing import Final

from odradek.console.readings.charts import Sample

SAMPLES_MAX: Final = 900
GROUPS_MAX: Final = 200


def new_series() -> deque[Sample]:
    return deque(maxlen=SAMPLES_MAX)


class Lags:
    """Lag of recently viewed groups; evicts the least recently viewed group first."""

    def __init__(self) -> None:
        self._series: Final[OrderedDict[str, deque[Sample]]] = OrderedDict()

    def add(self, group: str, at_ms: int, records: int) -> deque[Sample]:
        series = self._series.setdefault(group, new_series())
        self._series.move_to_end(group)
        if len(self._series) > GROUPS_MAX:
            self._series.popitem(last=False)
        # Two pages may show one group: one sample per second is enough.
        if not series or at_ms - series[-1].at_ms >= 1000:
            series.append(Sample(at_ms, (float(records),)))
        return series
