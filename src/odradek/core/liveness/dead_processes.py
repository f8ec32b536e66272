"""Telling a broker whose process has died from one that is only silent, without waiting for its session to end.

A process that dies closes its sockets at once, and its ports refuse whoever connects. The active controller suspects a
broker when the connection of its heartbeats breaks, or when it is not heard of after the controller's activation, and
knocks at its door for a whole grace. Only a door that is shut every time is proof; an open one, or no answer at all,
leaves the broker to its session. The rules that keep a healthy broker safe, whatever happens to this controller:

- a heartbeat ends the suspicion;
- a loop that stood still for more than half the grace has seen nothing: the grace begins anew;
- a controller that a majority of voters has not fetched from lately may be the one that is cut off: it waits;
- never more than a minority of the brokers within one session timeout: then something else is wrong. Whoever has come
  back as a new process was dead indeed, and does not count any more;
- the fence counts for the registration that was probed, and not if the broker is heard of meanwhile.

A machine: an event and the time go in, effects come out. It knows no socket and no clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final, NamedTuple, TypeAlias

from odradek.base.values import value
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import Endpoint

PROBES_PER_GRACE: Final = 6
LOOKS_PER_GRACE: Final = 10
"""How often the machine wants to be woken while it suspects somebody, so that it sees its own loop stand still."""


class Knock(Enum):
    """What came of a connect."""

    REFUSED = auto()
    """Nobody listens there: the machine is up and the process is not."""
    OPENED = auto()
    UNREACHABLE = auto()
    """Silence, no route, an unknown name: nothing that speaks of the process."""


# Events


@value
class Activated:
    """The first event: this controller has become the active one, and nobody has been heard of yet."""


@value
class HeartbeatAccepted:
    broker_id: int
    broker_epoch: int
    connection: int | None
    """A number that no other connection has; None: the broker is in this process."""


@value
class ConnectionClosed:
    connection: int
    by_us: bool


@value
class Knocked:
    broker_id: int
    attempt: int
    result: Knock


@value
class TimePassed:
    pass


Event: TypeAlias = Activated | HeartbeatAccepted | ConnectionClosed | Knocked | TimePassed


# Effects


@value
class Probe:
    """Connect there, and tell by `Knocked`; an answer that takes longer than this is none."""

    broker_id: int
    attempt: int
    endpoint: Endpoint
    timeout_seconds: float


@value
class RouseVoters:
    """Write a record that says nothing: voters that wait for news get some, and fetch again if they can."""


@value
class FenceEarly:
    broker_id: int
    broker_epoch: int
    silent_since: float


@value
class WakeAt:
    """By TimePassed. Replaces the wake before it."""

    moment: float


Effect: TypeAlias = Probe | RouseVoters | FenceEarly | WakeAt


@value
class DetectionSettings:
    grace_seconds: float
    """0: no broker is ever suspected, as in Apache Kafka."""
    session_timeout_seconds: float
    own_id: int
    """The node of this controller: a process cannot find itself dead."""
    inter_broker_listener_name: str


@dataclass(slots=True)
class _Suspicion:
    broker_epoch: int
    silent_since: float
    begins_at: float
    """The grace, with the first connect."""
    probe_at: float
    """When the next connect is due."""
    attempt: int | None = None
    """Of the connect that is under way."""
    attempted_at: float = -inf
    has_roused: bool = False


class _Fenced(NamedTuple):
    broker_epoch: int
    at: float


class DeadProcesses:
    """Of one activation: the next one begins with nothing."""

    def __init__(
        self,
        settings: DetectionSettings,
        brokers: Callable[[], Mapping[int, BrokerImage]],
        majority_fetched_within: Callable[[float], bool],
    ) -> None:
        """`brokers`: as the controller has decided so far. `majority_fetched_within`: asked with seconds."""
        self._settings: Final = settings
        self._grace: Final = settings.grace_seconds
        self._brokers: Final = brokers
        self._majority_fetched_within: Final = majority_fetched_within
        self._suspicions: dict[int, _Suspicion] = {}
        self._unheard: dict[int, int] = {}
        """Epochs of the brokers that have not been heard of since the activation."""
        self._unheard_until = inf
        self._connections: dict[int, tuple[int, int]] = {}
        """Of the last accepted heartbeat of each broker: its epoch, and the connection that brought it."""
        self._fenced: dict[int, _Fenced] = {}
        """Lately, and as far as is known: whether rightly has not shown yet."""
        self._attempts = 0
        self._looked_at = -inf
        self._effects: list[Effect] = []

    @property
    def suspected_ids(self) -> tuple[int, ...]:
        return tuple(self._suspicions)

    def step(self, event: Event, now: float) -> tuple[Effect, ...]:
        if self._grace <= 0:
            return ()
        if self._is_watching and now - self._looked_at > self._grace / 2:
            self._begin_anew(now)
        self._looked_at = now
        match event:
            case Activated():
                self._activate(now)
            case HeartbeatAccepted():
                self._heard(event)
            case ConnectionClosed():
                self._closed(event, now)
            case Knocked():
                self._knocked(event, now)
            case TimePassed():
                pass
        self._settle(now)
        effects, self._effects = tuple(self._effects), []
        return effects

    # Events

    def _activate(self, now: float) -> None:
        brokers = self._brokers().values()
        self._unheard = {broker.id: broker.epoch for broker in brokers if not broker.fenced}
        self._unheard_until = now + self._grace
        # Whoever is fenced may have been so a moment ago, by the controller before this one.
        self._fenced = {broker.id: _Fenced(broker.epoch, now) for broker in brokers if broker.fenced}

    def _heard(self, event: HeartbeatAccepted) -> None:
        broker = self._brokers().get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        self._suspicions.pop(broker.id, None)
        self._unheard.pop(broker.id, None)
        self._connections.pop(broker.id, None)
        if event.connection is not None:
            self._connections[broker.id] = (broker.epoch, event.connection)

    def _closed(self, event: ConnectionClosed, now: float) -> None:
        closed = [
            (broker_id, epoch) for broker_id, (epoch, one) in self._connections.items() if one == event.connection
        ]
        for broker_id, epoch in closed:
            del self._connections[broker_id]
            if not event.by_us:
                # A process that is dying closes what it has open one after the other: its port may come last.
                self._suspect(broker_id, epoch, now, now + self._grace / PROBES_PER_GRACE)

    def _knocked(self, event: Knocked, now: float) -> None:
        suspicion = self._suspicions.get(event.broker_id)
        if suspicion is None or suspicion.attempt != event.attempt:
            return
        if event.result is not Knock.REFUSED:
            del self._suspicions[event.broker_id]
            return
        suspicion.attempt = None
        ends_at = suspicion.begins_at + self._grace
        if suspicion.attempted_at >= ends_at and self._majority_fetched_within(self._grace):
            self._fence(event.broker_id, suspicion, now)
            return
        self._rouse(suspicion, now)
        suspicion.probe_at = suspicion.attempted_at + self._grace / PROBES_PER_GRACE
        if suspicion.attempted_at < ends_at:
            suspicion.probe_at = min(suspicion.probe_at, ends_at)

    # Suspicion

    @property
    def _is_watching(self) -> bool:
        return bool(self._suspicions or self._unheard)

    def _suspect(self, broker_id: int, broker_epoch: int, silent_since: float, begins_at: float) -> None:
        if broker_id != self._settings.own_id:
            self._suspicions.setdefault(broker_id, _Suspicion(broker_epoch, silent_since, begins_at, begins_at))

    def _begin_anew(self, now: float) -> None:
        """Heartbeats may lie unread, and a connect may have been answered long ago."""
        self._unheard_until = now + self._grace
        for broker_id, suspicion in self._suspicions.items():
            self._suspicions[broker_id] = _Suspicion(suspicion.broker_epoch, suspicion.silent_since, now, now)

    def _rouse(self, suspicion: _Suspicion, now: float) -> None:
        """In an idle cluster voters fetch more rarely than the grace takes: better to know of them when it ends."""
        half = self._grace / 2
        is_late = now >= suspicion.begins_at + half
        if is_late and not suspicion.has_roused and not self._majority_fetched_within(half):
            suspicion.has_roused = True
            self._effects.append(RouseVoters())

    def _fence(self, broker_id: int, suspicion: _Suspicion, now: float) -> None:
        del self._suspicions[broker_id]
        brokers = self._brokers()
        serving = {broker.id for broker in brokers.values() if not broker.fenced}
        since = now - self._settings.session_timeout_seconds
        self._fenced = {
            one: fenced
            for one, fenced in self._fenced.items()
            if fenced.at > since and not (one in serving and brokers[one].epoch > fenced.broker_epoch)
        }
        fenced = {*self._fenced, broker_id}
        if 2 * len(fenced) < len(serving | fenced):
            self._fenced[broker_id] = _Fenced(suspicion.broker_epoch, now)
            self._effects.append(FenceEarly(broker_id, suspicion.broker_epoch, suspicion.silent_since))

    # After every event

    def _settle(self, now: float) -> None:
        if self._unheard and now >= self._unheard_until:
            for broker_id, epoch in self._unheard.items():
                self._suspect(broker_id, epoch, now, now)
            self._unheard.clear()
        for broker_id, suspicion in list(self._suspicions.items()):
            endpoint = self._endpoint(broker_id, suspicion.broker_epoch)
            if endpoint is None:
                del self._suspicions[broker_id]
            elif suspicion.attempt is None and now >= suspicion.probe_at:
                self._probe(broker_id, suspicion, endpoint, now)
        if self._is_watching:
            due = [suspicion.probe_at for suspicion in self._suspicions.values() if suspicion.attempt is None]
            due.append(now + self._grace / LOOKS_PER_GRACE)
            if self._unheard:
                due.append(self._unheard_until)
            self._effects.append(WakeAt(min(due)))

    def _probe(self, broker_id: int, suspicion: _Suspicion, endpoint: Endpoint, now: float) -> None:
        self._attempts += 1
        suspicion.attempt = self._attempts
        suspicion.attempted_at = now
        self._effects.append(Probe(broker_id, self._attempts, endpoint, self._grace / 2))

    def _endpoint(self, broker_id: int, broker_epoch: int) -> Endpoint | None:
        """Where to knock. None: there is nobody to suspect any more, or nothing known that brokers call each other by.

        A controller need not be told the name of the brokers' listener; with one endpoint there is no question.
        """
        broker = self._brokers().get(broker_id)
        if broker is None or broker.fenced or broker.epoch != broker_epoch:
            return None
        named = broker.endpoint(self._settings.inter_broker_listener_name)
        return broker.endpoints[0] if named is None and len(broker.endpoints) == 1 else named
