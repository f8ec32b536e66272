"""The detection of dead brokers with a simulated clock and simulated ports."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from odradek.core.liveness.dead_brokers import (
    Activated,
    ConnectionClosed,
    DeadBrokerDetector,
    DetectionSettings,
    Effect,
    Event,
    FenceBroker,
    HeartbeatAccepted,
    Probe,
    ProbeCompleted,
    TimePassed,
    WakeAt,
    WriteNoOp,
)
from odradek.core.liveness.probes import ProbeResult, RegisteredEndpoint
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import Endpoint

GRACE = 0.3
SESSION = 9.0
CONTROLLER_ID = 100


def endpoint(name: str = "PLAINTEXT", port: int = 9092, host: str = "h") -> Endpoint:
    return Endpoint(name=name, host=host, port=port, security_protocol=0)


def broker(broker_id: int, epoch: int = 10, *, fenced: bool = False, host: str = "h") -> BrokerImage:
    return BrokerImage(
        id=broker_id,
        epoch=epoch,
        incarnation_id=UUID(int=broker_id),
        endpoints=(endpoint(host=host),),
        features=(),
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
    )


class Detection:
    """Ports respond after `latency`; unreachable ports respond after the timeout."""

    def __init__(self, broker_count: int = 3, *, grace: float = GRACE, own_id: int = CONTROLLER_ID) -> None:
        self.now = 1000.0
        self.brokers = {one: broker(one) for one in range(1, broker_count + 1)}
        self.has_majority = True
        self.detector = DeadBrokerDetector(
            DetectionSettings(grace, SESSION, own_id, "PLAINTEXT"),
            lambda: self.brokers,
            self._has_reached,
            self._majority_fetched_within,
        )
        self.unreached: set[RegisteredEndpoint] = set()
        """Registrations that have never accepted a connection from this controller."""
        self.queried_seconds: list[float] = []
        self.fetched_at: float | None = None
        """When a majority of the voters fetched last. None: `has_majority` alone decides."""
        self.no_ops = 0
        self.ports: dict[int, ProbeResult] = {}
        """Probe result per broker; by default the port accepts connections."""
        self.latency = 0.001
        self.fences: list[tuple[float, FenceBroker]] = []
        self.probes: list[tuple[float, Probe]] = []
        self.on_fence: Callable[[FenceBroker], None] = self._fence
        self._wake_at: float | None = None
        self._due: list[tuple[float, Event]] = []

    def _has_reached(self, endpoint: RegisteredEndpoint) -> bool:
        return endpoint not in self.unreached

    def _majority_fetched_within(self, seconds: float) -> bool:
        self.queried_seconds.append(seconds)
        return self.has_majority and (self.fetched_at is None or self.now - self.fetched_at <= seconds)

    def _fence(self, fence: FenceBroker) -> None:
        self.brokers[fence.broker_id] = replace(self.brokers[fence.broker_id], fenced=True)

    @property
    def fenced_ids(self) -> list[int]:
        return [fence.broker_id for _, fence in self.fences]

    def happen(self, event: Event) -> None:
        for effect in self.detector.step(event, self.now):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case WakeAt(moment):
                self._wake_at = moment
            case WriteNoOp():
                self.no_ops += 1
                if self.fetched_at is not None:
                    self.fetched_at = self.now
            case FenceBroker():
                self.fences.append((self.now, effect))
                self.on_fence(effect)
            case Probe():
                self.probes.append((self.now, effect))
                result = self.ports.get(effect.broker_id, ProbeResult.CONNECTED)
                delay = effect.timeout_seconds if result is ProbeResult.UNREACHABLE else self.latency
                self._due.append((self.now + delay, ProbeCompleted(effect.broker_id, effect.attempt, result)))

    def beat(self, broker_id: int, connection: int | None = None) -> None:
        number = broker_id if connection is None else connection
        self.happen(HeartbeatAccepted(broker_id, self.brokers[broker_id].epoch, number))

    def all_beat(self) -> None:
        for broker_id in self.brokers:
            self.beat(broker_id)

    def activate(self) -> None:
        self.happen(Activated())

    def serve(self) -> None:
        """An active controller with a heartbeat of every broker."""
        self.activate()
        self.all_beat()

    def die(self, broker_id: int, connection: int | None = None) -> None:
        """The process dies: its port refuses connections, and its connection closes."""
        self.ports[broker_id] = ProbeResult.REFUSED
        self.happen(ConnectionClosed(broker_id if connection is None else connection, by_us=False))

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            self._due.sort(key=lambda one: one[0])
            next_result = self._due[0][0] if self._due else None
            moments = [moment for moment in (next_result, self._wake_at) if moment is not None and moment <= until]
            if not moments:
                break
            self.now = max(self.now, min(moments))
            if next_result is not None and next_result <= self.now:
                self.happen(self._due.pop(0)[1])
            else:
                self._wake_at = None
                self.happen(TimePassed())
        self.now = until

    def stall(self, seconds: float) -> None:
        """The process stalls."""
        self.now += seconds
