"""What clients use of their quotas, and the number of sensors."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas import sensors
from odradek.core.quotas.mutations import MutationQuota
from odradek.core.quotas.node_quotas import ClientUsage, NodeQuotas, unlimited_quotas

BOB: QuotaEntityKey = (("user", "bob"),)
ANY_CLIENT: QuotaEntityKey = (("client-id", None),)


def quotas(entity: QuotaEntityKey = BOB, **limits: float) -> NodeQuotas:
    found = unlimited_quotas()
    found.change({entity: limits})
    return found


def test_node_without_limits_measures_nothing() -> None:
    unlimited = unlimited_quotas()
    assert not unlimited.is_enabled
    usage = ClientUsage(unlimited, "bob", "app")
    assert usage.record_produced(1 << 40, 0) == usage.record_fetched(1 << 40, 0) == usage.record_request(1e6, 0) == 0


def test_connections_of_a_client_share_its_limit() -> None:
    limited = quotas(producer_byte_rate=1000)
    first, second = ClientUsage(limited, "bob", "a"), ClientUsage(limited, "bob", "b")
    assert first.record_produced(10_000, 0) == 0
    assert second.record_produced(1000, 0) == 1000


def test_new_limit_applies_to_existing_connections_and_keeps_their_usage() -> None:
    limited = quotas(producer_byte_rate=1_000_000)
    usage = ClientUsage(limited, "bob", "app")
    assert usage.record_produced(20_000, 0) == 0
    limited.change({BOB: {"producer_byte_rate": 1000.0}})
    assert usage.record_produced(0, 0) == 10_000
    limited.change({})
    assert usage.record_produced(1 << 40, 0) == 0


def test_request_delay_is_one_window_at_most() -> None:
    usage = ClientUsage(quotas(request_percentage=1), "bob", "app")
    assert usage.record_request(0.05, 0) == 0
    assert usage.record_request(0.06, 0) == 1000


def test_fetch_bytes_are_limited_to_what_a_pause_allows() -> None:
    usage = ClientUsage(quotas(consumer_byte_rate=1000), "bob", "app")
    assert usage.fetch_bytes_max(0) == 10_000
    assert usage.record_fetched(15_000, 0) == 5000
    usage.remove_fetched(15_000, 0)
    assert usage.record_fetched(10_000, 0) == 0


def test_number_of_sensors_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "SENSORS_MAX", 100)
    limited = quotas(ANY_CLIENT, producer_byte_rate=1000)
    kept = ClientUsage(limited, "bob", "kept")
    for number in range(1000):
        ClientUsage(limited, "bob", f"client-{number}").record_produced(1, number)
        kept.record_produced(20, number)
    assert len(limited.produced.latest(1000)) <= 100
    # A client that is active keeps what it has used.
    assert kept.record_produced(0, 1000) == pytest.approx(10_000, abs=1001)


def test_unused_sensors_expire_after_an_hour() -> None:
    limited = quotas(ANY_CLIENT, producer_byte_rate=1000)
    ClientUsage(limited, "bob", "old").record_produced(1, 0)
    ClientUsage(limited, "bob", "young").record_produced(1, 1_800_000)
    ClientUsage(limited, "bob", "new").record_produced(1, 3_600_000)
    assert {one.applied.client_id for one in limited.produced.latest(1000)} == {"young", "new"}


class TestMutations:
    def mutation_quota(self, limited: NodeQuotas, *, is_strict: bool, now_ms: int = 0) -> MutationQuota:
        return MutationQuota(limited.mutations.find("bob", "app", now_ms), lambda: now_ms, is_strict=is_strict)

    def test_strict_quota_refuses_while_the_bucket_is_overdrawn(self) -> None:
        limited = quotas(controller_mutation_rate=2)
        quota = self.mutation_quota(limited, is_strict=True)
        quota.withdraw(22)
        quota.withdraw(4)
        assert quota.remaining_delay_ms() == 0
        with pytest.raises(KafkaError) as refused:
            quota.withdraw(1)
        assert refused.value.code is ErrorCode.throttling_quota_exceeded
        assert quota.remaining_delay_ms() == 2000

    def test_other_quota_delays_and_never_refuses(self) -> None:
        limited = quotas(controller_mutation_rate=2)
        quota = self.mutation_quota(limited, is_strict=False)
        quota.withdraw(22)
        assert quota.remaining_delay_ms() == 0
        quota.withdraw(2)
        quota.withdraw(2)
        assert quota.remaining_delay_ms() == 2000

    def test_time_that_the_request_waited_counts(self) -> None:
        now = [0]
        limited = quotas(controller_mutation_rate=1)
        quota = MutationQuota(limited.mutations.find("bob", "app", 0), lambda: now[0], is_strict=False)
        quota.withdraw(13)
        now[0] = 1500
        assert quota.remaining_delay_ms() == 500
