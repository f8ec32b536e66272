"""How the active controller detects that a broker's process has died, before the broker's session expires.

A process that dies closes its sockets at once, and its port then refuses connections. The active controller suspects a
broker when the connection of its heartbeats closes, or when no heartbeat arrives after the controller's activation. It
then probes the broker's port during a grace period. Only a port that refuses every connection is proof; if the port
accepts one, or does not respond, the broker keeps its session. These rules protect a healthy broker, whatever happens
to this controller:

- a refused connection counts only if this registration has accepted one from this controller before: see
  `reached_brokers`;
- a heartbeat ends the suspicion;
- a stall of this process for more than half the grace period restarts the grace period;
- a controller from which no majority of voters has fetched recently may be partitioned itself: it waits;
- it fences at most a minority within one session timeout, since more suggest another problem: of the hosts if brokers
  run on three or more, where a host counts in proportion to its fenced brokers, and else of the brokers; a broker that
  has restarted as a new process was dead and does not count;
- the fence applies only to the registration that was probed, and not if a heartbeat has arrived meanwhile.

This is a state machine: `step` takes an event and the time, and returns effects. It has no socket and no clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, lcm
from typing import Final, NamedTuple, TypeAlias

from odradek.base.values import value
from odradek.core.liveness.probes import ProbeResult, RegisteredEndpoint, find_registered_endpoint
from odradek.core.metadata.image import BrokerImage

PROBES_PER_GRACE: Final = 6
HOSTS_MIN: Final = 3
"""Of fewer hosts, none is a minority."""
WAKES_PER_GRACE: Final = 10
"""How often the state machine wakes while it suspects a broker, so that it notices a stall of its own process."""


# Events


@value
class Activated:
    """The first event: this controller has become the active one, and no heartbeat has arrived yet."""


@value
class HeartbeatAccepted:
    broker_id: int
    broker_epoch: int
    connection: int
    """A number that no other connection has."""


@value
class ConnectionClosed:
    connection: int
    by_us: bool


@value
class ProbeCompleted:
    broker_id: int
    attempt: int
    result: ProbeResult


@value
class TimePassed:
    pass


Event: TypeAlias = Activated | HeartbeatAccepted | ConnectionClosed | ProbeCompleted | TimePassed


# Effects


@value
class Probe:
    """Connect to the endpoint and report ProbeCompleted. A timeout counts as UNREACHABLE."""

    broker_id: int
    attempt: int
    endpoint: RegisteredEndpoint
    timeout_seconds: float


@value
class WriteNoOp:
    """Write an empty record, so that voters that wait for records fetch again if they can."""


@value
class FenceBroker:
    broker_id: int
    broker_epoch: int
    unresponsive_since: float


@value
class WakeAt:
    """Report TimePassed at this moment. Replaces the previous one."""

    moment: float


Effect: TypeAlias = Probe | WriteNoOp | FenceBroker | WakeAt


@value
class DetectionSettings:
    grace_seconds: float
    """0: off, as in Apache Kafka."""
    session_timeout_seconds: float
    own_id: int
    """The node of this controller, whose process is alive."""
    inter_broker_listener_name: str


@dataclass(slots=True)
class _Suspicion:
    broker_epoch: int
    unresponsive_since: float
    starts_at: float
    """Start of the grace period, with the first probe."""
    probe_at: float
    """When the next probe is due."""
    attempt: int | None = None
    """Number of the probe in progress."""
    attempted_at: float = -inf
    has_written_no_op: bool = False


class _Fenced(NamedTuple):
    broker_epoch: int
    at: float


class DeadBrokerDetector:
    """Belongs to one activation of the controller; the next activation starts with a new one."""

    def __init__(
        self,
        settings: DetectionSettings,
        brokers: Callable[[], Mapping[int, BrokerImage]],
        has_reached: Callable[[RegisteredEndpoint], bool],
        majority_fetched_within: Callable[[float], bool],
    ) -> None:
        """`brokers` returns the controller's current registrations. `has_reached`: has this endpoint accepted a
        connection from this controller before? `majority_fetched_within` takes seconds.
        """
        self._settings: Final = settings
        self._grace: Final = settings.grace_seconds
        self._brokers: Final = brokers
        self._has_reached: Final = has_reached
        self._majority_fetched_within: Final = majority_fetched_within
        self._suspicions: dict[int, _Suspicion] = {}
        self._without_heartbeat: dict[int, int] = {}
        """Epochs of the brokers that have sent no heartbeat since the activation."""
        self._without_heartbeat_until = inf
        self._connections: dict[int, tuple[int, int]] = {}
        """Per broker, the epoch and the connection of its last accepted heartbeat."""
        self._fenced: dict[int, _Fenced] = {}
        """Recently fenced brokers that have not restarted yet."""
        self._attempts = 0
        self._last_step_at = -inf
        self._effects: list[Effect] = []

    @property
    def suspected_ids(self) -> tuple[int, ...]:
        return tuple(self._suspicions)

    def is_connected(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the connection of the last heartbeat of this registration is open."""
        epoch, _ = self._connections.get(broker_id, (None, None))
        return epoch == broker_epoch

    def step(self, event: Event, now: float) -> tuple[Effect, ...]:
        if self._grace <= 0:
            return ()
        if self._is_watching and now - self._last_step_at > self._grace / 2:
            self._restart_grace(now)
        self._last_step_at = now
        match event:
            case Activated():
                self._on_activated(now)
            case HeartbeatAccepted():
                self._on_heartbeat(event)
            case ConnectionClosed():
                self._on_connection_closed(event, now)
            case ProbeCompleted():
                self._on_probe_completed(event, now)
            case TimePassed():
                pass
        self._advance(now)
        effects, self._effects = tuple(self._effects), []
        return effects

    # Events

    def _on_activated(self, now: float) -> None:
        brokers = self._brokers().values()
        self._without_heartbeat = {broker.id: broker.epoch for broker in brokers if not broker.fenced}
        self._without_heartbeat_until = now + self._grace
        # The previous active controller may have fenced these brokers a moment ago.
        self._fenced = {broker.id: _Fenced(broker.epoch, now) for broker in brokers if broker.fenced}

    def _on_heartbeat(self, event: HeartbeatAccepted) -> None:
        broker = self._brokers().get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        self._suspicions.pop(broker.id, None)
        self._without_heartbeat.pop(broker.id, None)
        self._connections[broker.id] = (broker.epoch, event.connection)

    def _on_connection_closed(self, event: ConnectionClosed, now: float) -> None:
        closed = [
            (broker_id, epoch) for broker_id, (epoch, one) in self._connections.items() if one == event.connection
        ]
        for broker_id, epoch in closed:
            del self._connections[broker_id]
            if not event.by_us:
                # A process that dies closes its sockets one after the other: the listening one may be the last.
                self._suspect(broker_id, epoch, now, now + self._grace / PROBES_PER_GRACE)

    def _on_probe_completed(self, event: ProbeCompleted, now: float) -> None:
        suspicion = self._suspicions.get(event.broker_id)
        if suspicion is None or suspicion.attempt != event.attempt:
            return
        endpoint = self._find_endpoint(event.broker_id, suspicion.broker_epoch)
        if event.result is not ProbeResult.REFUSED or endpoint is None or not self._has_reached(endpoint):
            del self._suspicions[event.broker_id]
            return
        suspicion.attempt = None
        ends_at = suspicion.starts_at + self._grace
        if suspicion.attempted_at >= ends_at and self._majority_fetched_within(self._grace):
            self._fence(event.broker_id, suspicion, now)
            return
        self._write_no_op_if_due(suspicion, now)
        suspicion.probe_at = suspicion.attempted_at + self._grace / PROBES_PER_GRACE
        if suspicion.attempted_at < ends_at:
            suspicion.probe_at = min(suspicion.probe_at, ends_at)

    # Suspicion

    @property
    def _is_watching(self) -> bool:
        return bool(self._suspicions or self._without_heartbeat)

    def _suspect(self, broker_id: int, broker_epoch: int, unresponsive_since: float, starts_at: float) -> None:
        if broker_id != self._settings.own_id:
            self._suspicions.setdefault(broker_id, _Suspicion(broker_epoch, unresponsive_since, starts_at, starts_at))

    def _restart_grace(self, now: float) -> None:
        """After a stall, heartbeats may be unread, and the result of a probe may be old."""
        self._without_heartbeat_until = now + self._grace
        for broker_id, suspicion in self._suspicions.items():
            self._suspicions[broker_id] = _Suspicion(suspicion.broker_epoch, suspicion.unresponsive_since, now, now)

    def _write_no_op_if_due(self, suspicion: _Suspicion, now: float) -> None:
        """In an idle cluster, voters fetch less often than the grace period is long."""
        half = self._grace / 2
        is_late = now >= suspicion.starts_at + half
        if is_late and not suspicion.has_written_no_op and not self._majority_fetched_within(half):
            suspicion.has_written_no_op = True
            self._effects.append(WriteNoOp())

    def _fence(self, broker_id: int, suspicion: _Suspicion, now: float) -> None:
        assert broker_id != self._settings.own_id, "a controller must not fence the broker of its own process"
        del self._suspicions[broker_id]
        brokers = self._brokers()
        unfenced = {broker.id for broker in brokers.values() if not broker.fenced}
        since = now - self._settings.session_timeout_seconds
        self._fenced = {
            one: fenced
            for one, fenced in self._fenced.items()
            if fenced.at > since and not (one in unfenced and brokers[one].epoch > fenced.broker_epoch)
        }
        if self._is_minority({*self._fenced, broker_id}, unfenced):
            self._fenced[broker_id] = _Fenced(suspicion.broker_epoch, now)
            self._effects.append(FenceBroker(broker_id, suspicion.broker_epoch, suspicion.unresponsive_since))

    def _is_minority(self, fenced: set[int], unfenced: set[int]) -> bool:
        """A host that dies takes all its brokers with it: that is one failure, not several."""
        brokers = self._brokers()
        by_host: dict[str, list[int]] = {}
        for broker_id in unfenced | fenced:
            broker = brokers.get(broker_id)
            unknown = f"unregistered broker {broker_id}"
            host = unknown if broker is None else broker.host(self._settings.inter_broker_listener_name)
            by_host.setdefault(host, []).append(broker_id)
        if len(by_host) < HOSTS_MIN:
            return 2 * len(fenced) < len(unfenced | fenced)
        # Every host has the same number of shares, which its brokers divide.
        shares = lcm(*map(len, by_host.values()))
        dead = sum(shares // len(ids) * len(fenced.intersection(ids)) for ids in by_host.values())
        return 2 * dead < shares * len(by_host)

    # After every event

    def _advance(self, now: float) -> None:
        if self._without_heartbeat and now >= self._without_heartbeat_until:
            for broker_id, epoch in self._without_heartbeat.items():
                self._suspect(broker_id, epoch, now, now)
            self._without_heartbeat.clear()
        for broker_id, suspicion in list(self._suspicions.items()):
            endpoint = self._find_endpoint(broker_id, suspicion.broker_epoch)
            if endpoint is None:
                del self._suspicions[broker_id]
            elif suspicion.attempt is None and now >= suspicion.probe_at:
                self._probe(broker_id, suspicion, endpoint, now)
        if self._is_watching:
            due = [suspicion.probe_at for suspicion in self._suspicions.values() if suspicion.attempt is None]
            due.append(now + self._grace / WAKES_PER_GRACE)
            if self._without_heartbeat:
                due.append(self._without_heartbeat_until)
            self._effects.append(WakeAt(min(due)))

    def _probe(self, broker_id: int, suspicion: _Suspicion, endpoint: RegisteredEndpoint, now: float) -> None:
        self._attempts += 1
        suspicion.attempt = self._attempts
        suspicion.attempted_at = now
        self._effects.append(Probe(broker_id, self._attempts, endpoint, self._grace / 2))

    def _find_endpoint(self, broker_id: int, broker_epoch: int) -> RegisteredEndpoint | None:
        """The endpoint to probe. None: the registration has ended, or its inter-broker endpoint is unknown."""
        broker = self._brokers().get(broker_id)
        if broker is None or broker.fenced or broker.epoch != broker_epoch:
            return None
        return find_registered_endpoint(broker, self._settings.inter_broker_listener_name)
