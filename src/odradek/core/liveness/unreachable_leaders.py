"""Which partition leaders a broker reports as absent because its connection to them has just closed.

Until the controller has elected new leaders, a client that requests metadata would be sent back to the dead leader, and
some clients retry only after a second. So this broker's metadata names no leader for a moment, and clients retry soon.
Only the controller decides which broker is dead. This is one broker's guess, and it expires soon: a leader that this
broker cannot reach may serve its clients well.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from odradek.core.metadata.image import BrokerImage

DOUBT_GRACES: Final = 5
"""Graces until a doubt expires: enough for the controller to detect the failure, even after an election of its own."""


class Doubt(NamedTuple):
    broker_epoch: int
    ends_at: float


class LeaderDoubts:
    def __init__(self, grace_seconds: float) -> None:
        self.doubt_seconds: Final = DOUBT_GRACES * grace_seconds
        self._doubts: Final[dict[int, Doubt]] = {}

    def on_disconnect(self, broker: BrokerImage | None, broker_epoch: int, now: float) -> Doubt | None:
        """Doubts the leader at once, since clients lost their connections at the same time. None: it does not.

        `broker_epoch` is that of the registration whose connection has closed. A later registration has not accepted a
        connection from this broker yet, so that its refusals are no evidence.
        """
        if broker is None or broker.epoch != broker_epoch or not self.doubt_seconds:
            return None
        doubt = self._doubts[broker.id] = Doubt(broker.epoch, now + self.doubt_seconds)
        return doubt

    def on_reached(self, broker_id: int, doubt: Doubt) -> None:
        """The leader has responded, or there is no evidence that its process is dead."""
        if self._doubts.get(broker_id) is doubt:
            del self._doubts[broker_id]

    def ids(self, brokers: Mapping[int, BrokerImage], now: float) -> Collection[int]:
        """A doubt ends in time, and with the registration that it is about."""
        if self._doubts:
            for broker_id, doubt in list(self._doubts.items()):
                broker = brokers.get(broker_id)
                if now >= doubt.ends_at or broker is None or broker.fenced or broker.epoch != doubt.broker_epoch:
                    del self._doubts[broker_id]
        return self._doubts.keys()
