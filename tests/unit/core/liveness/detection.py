"""The detection of dead processes on a clock of its own: brokers whose doors can be shut, and what came of it."""

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
    ProbeResult,
    TimePassed,
    WakeAt,
    WriteNoOp,
)
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import Endpoint

GRACE = 0.3
SESSION = 9.0
CONTROLLER_ID = 100


def endpoint(name: str = "PLAINTEXT", port: int = 9092) -> Endpoint:
    return Endpoint(name=name, host="h", port=port, security_protocol=0)


def broker(broker_id: int, epoch: int = 10, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        id=broker_id,
        epoch=epoch,
        incarnation_id=UUID(int=broker_id),
        endpoints=(endpoint(),),
        features=(),
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
    )


class Detection:
    """Doors answer after `latency`, and where there is no door, no answer comes in time."""

    def __init__(self, broker_count: int = 3, *, grace: float = GRACE, own_id: int = CONTROLLER_ID) -> None:
        self.now = 1000.0
        self.brokers = {one: broker(one) for one in range(1, broker_count + 1)}
        self.has_majority = True
        self.machine = DeadBrokerDetector(
            DetectionSettings(grace, SESSION, own_id, "PLAINTEXT"),
            lambda: self.brokers,
            self._majority_fetched_within,
        )
        self.asked_within: list[float] = []
        self.fetched_at: float | None = None
        """When a majority of the voters fetched last; None: `has_majority` says it all."""
        self.roused = 0
        self.door: dict[int, ProbeResult] = {}
        """Of each broker; those that are missing are open."""
        self.latency = 0.001
        self.fences: list[tuple[float, FenceBroker]] = []
        self.probes: list[tuple[float, Probe]] = []
        self.on_fence: Callable[[FenceBroker], None] = self._fence
        self._wake_at: float | None = None
        self._coming: list[tuple[float, Event]] = []

    def _majority_fetched_within(self, seconds: float) -> bool:
        self.asked_within.append(seconds)
        return self.has_majority and (self.fetched_at is None or self.now - self.fetched_at <= seconds)

    def _fence(self, fence: FenceBroker) -> None:
        self.brokers[fence.broker_id] = replace(self.brokers[fence.broker_id], fenced=True)

    @property
    def fenced_ids(self) -> list[int]:
        return [fence.broker_id for _, fence in self.fences]

    def happen(self, event: Event) -> None:
        for effect in self.machine.step(event, self.now):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case WakeAt(moment):
                self._wake_at = moment
            case WriteNoOp():
                self.roused += 1
                if self.fetched_at is not None:
                    self.fetched_at = self.now
            case FenceBroker():
                self.fences.append((self.now, effect))
                self.on_fence(effect)
            case Probe():
                self.probes.append((self.now, effect))
                answer = self.door.get(effect.broker_id, ProbeResult.CONNECTED)
                delay = effect.timeout_seconds if answer is ProbeResult.UNREACHABLE else self.latency
                self._coming.append((self.now + delay, ProbeCompleted(effect.broker_id, effect.attempt, answer)))

    def beat(self, broker_id: int, connection: int | None = None) -> None:
        number = broker_id if connection is None else connection
        self.happen(HeartbeatAccepted(broker_id, self.brokers[broker_id].epoch, number))

    def all_beat(self) -> None:
        for broker_id in self.brokers:
            self.beat(broker_id)

    def activate(self) -> None:
        self.happen(Activated())

    def serve(self) -> None:
        """An active controller that has heard of everybody."""
        self.activate()
        self.all_beat()

    def die(self, broker_id: int, connection: int | None = None) -> None:
        """The process: its port is shut, its connection breaks."""
        self.door[broker_id] = ProbeResult.REFUSED
        self.happen(ConnectionClosed(broker_id if connection is None else connection, by_us=False))

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            self._coming.sort(key=lambda one: one[0])
            next_answer = self._coming[0][0] if self._coming else None
            moments = [moment for moment in (next_answer, self._wake_at) if moment is not None and moment <= until]
            if not moments:
                break
            self.now = max(self.now, min(moments))
            if next_answer is not None and next_answer <= self.now:
                self.happen(self._coming.pop(0)[1])
            else:
                self._wake_at = None
                self.happen(TimePassed())
        self.now = until

    def stall(self, seconds: float) -> None:
        """Nothing is noticed until then."""
        self.now += seconds
