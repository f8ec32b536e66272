"""Metrics of client quotas, with the names of the Prometheus JMX exporter's rules for them.

The number of entities is bounded: clients choose their client IDs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from odradek.base.ports import Clock
from odradek.core.quotas.node_quotas import NodeQuotas
from odradek.core.quotas.rates import RateWindows, TokenBucket
from odradek.core.quotas.sensors import Sensor, Sensors
from odradek.observe.families import Family, Kind, Labels, Sample, own

ENTITIES_MAX: Final = 1000
"""Of each kind of quota: those that were used last."""

Read = Callable[[Any, int], float]


class QuotaReadings:
    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self.broker: NodeQuotas | None = None
        self.controller: NodeQuotas | None = None
        """Of a node with this role. Mutations are measured by the controller."""

    async def families(self) -> list[Family]:
        """Without limited clients, they have no samples."""
        now_ms = int(self._clock.monotonic() * 1000)
        clients = self.broker or self.controller
        kinds: list[tuple[str, Sensors[Any], Sequence[tuple[str, Read]]]] = []
        if clients is not None:
            kinds += [
                ("Produce", clients.produced, [("byte-rate", _rate)]),
                ("Fetch", clients.fetched, [("byte-rate", _rate)]),
                ("Request", clients.requests, [("request-time", _rate)]),
            ]
        if self.controller is not None:
            kinds.append(("ControllerMutation", self.controller.mutations, [("tokens", _tokens)]))
        values: dict[str, list[Sample]] = {}
        for resource, sensors, attributes in kinds:
            for sensor in sensors.latest(ENTITIES_MAX):
                labels = _labels(resource, sensor)
                for name, read in (*attributes, ("throttle-time", _delay)):
                    values.setdefault(name, []).append(Sample(labels, read(sensor, now_ms)))
        counts = [({"resource": resource}, len(sensors)) for resource, sensors, _ in kinds if len(sensors)]
        return [*map(_family, values.items()), _entities(counts)]


def _family(named: tuple[str, Iterable[Sample]]) -> Family:
    name, samples = named
    return Family(
        f"kafka_server_quota_{name.replace('-', '_')}",
        f"kafka.server:type=Produce|Fetch|Request|ControllerMutation,user=,client-id= {name}",
        Kind.GAUGE,
        samples,
    )


def _entities(counts: Iterable[tuple[Labels, float]]) -> Family:
    return own("client_quota_entities", "Users and client IDs that are measured for quotas", Kind.GAUGE, counts)


def _labels(resource: str, sensor: Sensor[Any]) -> Labels:
    """As in the rules: an MBean without a user or a client ID has no such label."""
    names = {"user": sensor.applied.user, "clientId": sensor.applied.client_id}
    return {"resource": resource, **{key: name for key, name in names.items() if name}}


def _rate(sensor: Sensor[RateWindows], now_ms: int) -> float:
    return sensor.measured.rate(now_ms)


def _tokens(sensor: Sensor[TokenBucket], now_ms: int) -> float:
    return sensor.measured.peek(sensor.limit, now_ms)


def _delay(sensor: Sensor[Any], now_ms: int) -> float:
    return sensor.mean_delay_ms(now_ms)
