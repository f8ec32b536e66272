"""Leases on segments: granted below a bound, renewed, released, expired, and limited."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.storage.log import leases
from odradek.storage.log.leases import (
    DURATION_MS_MAX,
    LIFETIME_MS_MAX,
    HeldSegment,
    Lease,
    LeaseRefused,
    Leases,
    leasable,
)
from odradek.storage.log.names import parse_offset_file, parse_partition_dir

SEGMENTS: Any = [SimpleNamespace(base_offset=base, size=base + 1) for base in (0, 10, 20, 30)]
LEASE = Lease(
    id="abc",
    principal="spark",
    partition=TopicPartition("orders", 0),
    log_dir="/logs",
    segments=(HeldSegment(0, 10, 1), HeldSegment(10, 20, 11)),
    granted_ms=1_000,
    expires_ms=2_000,
)


def bases(bound: int, start: int = 0, end: int = 2**62) -> list[int]:
    return [held.base_offset for _, held in leasable(SEGMENTS, bound, start=start, end=end)]


def test_only_closed_segments_below_the_bound_are_leasable() -> None:
    assert bases(100) == [0, 10, 20]
    assert bases(30) == [0, 10, 20]
    assert bases(29) == [0, 10]
    assert bases(9) == []
    assert bases(100, start=10, end=20) == [10]
    assert bases(100, start=9, end=21) == [0, 10, 20]
    assert [held for _, held in leasable(SEGMENTS, 100, start=25, end=26)] == [HeldSegment(20, 30, 21)]


def test_leasable_segments_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "FILES_PER_LEASE_MAX", 2)
    assert bases(100) == [0, 10]


def test_lease_expires_unless_renewed() -> None:
    held = Leases()
    held.grant(LEASE)
    held.grant(replace(LEASE, id="def"))

    assert held.expire(1_999) == []
    assert held.renew("def", "spark", 500, 1_999).expires_ms == 2_499
    # A renewal never shortens it.
    assert held.renew("def", "spark", 1, 2_000).expires_ms == 2_499
    with pytest.raises(LeaseRefused, match="abc has expired"):
        held.renew("abc", "spark", 500, 2_000)
    assert [one.id for one in held.expire(2_000)] == ["abc"]
    assert held.renew("def", "spark", 10**12, 2_100).expires_ms == 2_100 + DURATION_MS_MAX
    assert held.release("def", "spark").link_paths() == [
        "/logs/.lease-def-00000000000000000000.log",
        "/logs/.lease-def-00000000000000000010.log",
    ]
    assert list(held) == held.end_all() == []


def test_lease_has_a_maximum_lifetime() -> None:
    held = Leases()
    held.grant(LEASE)
    last = LEASE.granted_ms + LIFETIME_MS_MAX
    for now_ms in range(LEASE.granted_ms, last, DURATION_MS_MAX // 2):
        assert held.renew("abc", "spark", DURATION_MS_MAX, now_ms).expires_ms <= last
        assert held.expire(now_ms) == []
    with pytest.raises(LeaseRefused):
        held.renew("abc", "spark", DURATION_MS_MAX, last)
    assert held.expire(last)


def test_lease_of_another_principal_is_rejected() -> None:
    held = Leases()
    held.grant(LEASE)
    for do in (lambda: held.renew("abc", "other", 9, 1_500), lambda: held.release("abc", "other")):
        with pytest.raises(LeaseRefused, match="other has no lease abc"):
            do()
    assert [one.principal for one in held] == ["spark"]


def test_number_of_leases_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "FILES_MAX", 5)
    held = Leases()
    for name in ("a", "b"):
        held.grant(replace(LEASE, id=name))
    with pytest.raises(LeaseRefused, match="2 leases on 4 segments are active, the maximum is reached"):
        held.grant(replace(LEASE, id="c"))
    held.release("a", "spark")
    held.grant(replace(LEASE, id="c"))
    monkeypatch.setattr(leases, "LEASES_MAX", 2)
    with pytest.raises(LeaseRefused):
        held.check_room(0)


def test_lease_links_are_not_loaded_as_logs() -> None:
    name = LEASE.link_paths()[1].rpartition("/")[2]
    assert leases.is_link(name)
    assert parse_offset_file(name) is None
    assert parse_partition_dir(name) is None
