"""Metrics of client quotas."""

import asyncio
from math import isnan
from typing import Any

import pytest

from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.mutations import MutationQuota
from odradek.core.quotas.node_quotas import ClientUsage, NodeQuotas, unlimited_quotas
from odradek.observe import quota_readings
from odradek.observe.quota_readings import QuotaReadings
from tests.unit.quorum.fake_controller_node import ManualClock

ANN: QuotaEntityKey = (("user", "ann"),)
ANY_CLIENT: QuotaEntityKey = (("client-id", None),)
BOTH: QuotaEntityKey = (("client-id", "app"), ("user", "ann"))


class Stage:
    def __init__(self, entity: QuotaEntityKey, **limits: float) -> None:
        self.clock = ManualClock()
        self.readings = QuotaReadings(self.clock)
        self.broker, self.controller = unlimited_quotas(), unlimited_quotas()
        for one in (self.broker, self.controller):
            one.change({entity: limits})
        self.readings.broker, self.readings.controller = self.broker, self.controller

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def usage(self, client_id: str = "app", quotas: NodeQuotas | None = None) -> ClientUsage:
        return ClientUsage(quotas or self.broker, "ann", client_id)

    def values(self) -> dict[tuple[Any, ...], float]:
        return {
            (family.name.removeprefix("kafka_server_quota_"), *sorted(sample.labels.items())): sample.value
            for family in asyncio.run(self.readings.families())
            for sample in family.samples
        }


def labels(resource: str, **names: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"resource": resource, **names}.items()))


def test_a_node_without_limits_has_no_quota_metrics() -> None:
    stage = Stage(ANN)
    stage.usage().record_produced(1000, 0)
    assert stage.values() == {}


@pytest.mark.parametrize(
    ("entity", "names"),
    [(ANN, {"user": "ann"}), (ANY_CLIENT, {"clientId": "app"}), (BOTH, {"user": "ann", "clientId": "app"})],
)
def test_labels_are_the_level_of_the_quota_that_applies(entity: QuotaEntityKey, names: dict[str, str]) -> None:
    stage = Stage(entity, producer_byte_rate=1000.0)
    stage.usage().record_produced(5000, 0)
    values = stage.values()
    assert values["byte_rate", *labels("Produce", **names)] == 500
    assert isnan(values["throttle_time", *labels("Produce", **names)])
    assert values["odradek_client_quota_entities", *labels("Produce")] == 1


def test_mean_of_the_delays_is_counted_by_the_quota_that_caused_them() -> None:
    stage = Stage(ANN, producer_byte_rate=1000.0, consumer_byte_rate=1000.0, request_percentage=10.0)
    usage = stage.usage()
    usage.record_fetched(1, 0)
    usage.note_delay(0, produced_ms=300, request_ms=200)
    usage.note_delay(0, produced_ms=100, request_ms=50)
    usage.note_delay(0, produced_ms=700, request_ms=700)
    values = stage.values()
    assert values["throttle_time", *labels("Produce", user="ann")] == 200
    assert values["throttle_time", *labels("Request", user="ann")] == 700
    assert isnan(values["throttle_time", *labels("Fetch", user="ann")])
    stage.clock.now += 3600
    assert isnan(stage.values()["throttle_time", *labels("Produce", user="ann")])


def test_mutations_are_those_of_the_controller() -> None:
    stage = Stage(ANN, controller_mutation_rate=2.0)
    sensor = stage.controller.mutations.find("ann", "app", 0)
    MutationQuota(sensor, lambda: 0, is_strict=False).withdraw(30)
    values = stage.values()
    assert values["tokens", *labels("ControllerMutation", user="ann")] == -8
    assert values["throttle_time", *labels("ControllerMutation", user="ann")] == 4000


def test_reading_does_not_count_as_use() -> None:
    stage = Stage(ANN, controller_mutation_rate=2.0)
    sensor = stage.controller.mutations.find("ann", "app", 0)
    assert sensor is not None
    stage.clock.now += 60
    stage.values()
    assert sensor.measured.last_event_ms == 0


def test_the_number_of_entities_is_bounded_to_those_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_readings, "ENTITIES_MAX", 2)
    stage = Stage(ANY_CLIENT, producer_byte_rate=1000.0)
    for number in range(5):
        stage.usage(f"client-{number}").record_produced(1, number)
    values = stage.values()
    shown = {dict(key[1:])["clientId"] for key in values if key[0] == "byte_rate"}
    assert shown == {"client-3", "client-4"}
    assert values["odradek_client_quota_entities", *labels("Produce")] == 5
