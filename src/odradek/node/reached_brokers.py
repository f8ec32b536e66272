"""Connects once to each broker registration, on every controller. The rules are in `core/liveness/reached_brokers`."""

from typing import Final

from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.liveness.probes import ProbeResult, RegisteredEndpoint
from odradek.core.liveness.reached_brokers import (
    Connect,
    Connected,
    Event,
    NotConnected,
    ReachTracker,
    RegistrationsChanged,
    TimePassed,
    WakeAt,
)
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage
from odradek.node.probes import ProbeTasks, probe_endpoint


class ReachedBrokers:
    def __init__(self, config: NodeConfig, *, clock: Clock) -> None:
        self._is_enabled = config.broker_disconnect_grace_ms > 0
        self._clock: Final = clock
        self._tracker: Final = ReachTracker(config.node_id, config.inter_broker_listener_name)
        self._tasks: Final = ProbeTasks("connections to brokers", clock, lambda: self._step(TimePassed()))

    def start(self, image: ClusterImage) -> None:
        """To be called with the first image; `on_image` receives its changes."""
        if self._is_enabled:
            self._step(RegistrationsChanged(image.brokers))

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.brokers_changed:
            self.start(image)

    def stop(self) -> None:
        self._is_enabled = False
        self._tasks.stop()

    def has_reached(self, endpoint: RegisteredEndpoint) -> bool:
        return self._tracker.has_reached(endpoint)

    def on_connect(self, endpoint: RegisteredEndpoint) -> None:
        """A probe of another kind has reached this endpoint."""
        self._step(Connected(endpoint))

    def _step(self, event: Event) -> None:
        for effect in self._tracker.step(event, self._clock.monotonic()):
            match effect:
                case Connect():
                    self._tasks.start(self._connect(effect))
                case WakeAt(moment):
                    self._tasks.wake_at(moment)

    async def _connect(self, effect: Connect) -> None:
        result = await probe_endpoint(effect.endpoint, effect.timeout_seconds)
        is_connected = result is ProbeResult.CONNECTED
        self._step(Connected(effect.endpoint) if is_connected else NotConnected(effect.endpoint))
