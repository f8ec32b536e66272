"""Rates of an authorizer's checks, as Kafka computes them."""

import asyncio

from odradek.base.principal import ANONYMOUS
from odradek.core.security.authorizer import Authorizer
from odradek.core.security.resources import Operation, ResourceType
from odradek.observe.authorizer_readings import AuthorizerReadings


class Readings:
    def __init__(self) -> None:
        self.now = 1000.0
        self.authorizer = Authorizer({"User:ANONYMOUS"})
        self.readings = AuthorizerReadings(lambda: self.now)

    def check(self, times: int) -> None:
        access = self.authorizer.access_of(ANONYMOUS, "10.0.0.1")
        for _ in range(times):
            access.allows(Operation.READ, ResourceType.TOPIC, "a")

    def values(self) -> dict[str, float]:
        return {
            family.name.removeprefix("kafka_server_plugins_"): sample.value
            for family in asyncio.run(self.readings.families())
            for sample in family.samples
        }


def test_rates_are_those_of_the_last_minute() -> None:
    one = Readings()
    assert one.values() == {}
    one.readings.add("broker", one.authorizer)
    one.check(10)
    # After a moment, as if it were half a minute.
    assert one.values()["authorization_allowed_rate_per_minute"] == 20
    for _ in range(24):
        one.now += 5
        one.readings.mark()
    assert one.values()["authorization_allowed_rate_per_minute"] == 0
    one.check(7)
    one.now += 5
    found = one.values()
    assert found["authorization_allowed_rate_per_minute"] == 7
    assert found["authorization_request_rate_per_minute"] == found["authorization_allowed_rate_per_minute"]
    assert found["authorization_denied_rate_per_minute"] == 0
    assert found["acls_total_count"] == 0


def test_each_role_has_its_own_labels() -> None:
    one = Readings()
    for role in ("broker", "controller"):
        one.readings.add(role, one.authorizer)
    (family, *_) = asyncio.run(one.readings.families())
    assert [sample.labels["role"] for sample in family.samples] == ["broker", "controller"]
    assert all(sample.labels["config"] == "authorizer.class.name" for sample in family.samples)
