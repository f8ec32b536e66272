from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import KafkaError
from odradek.core.controller.placement import Placement
from odradek.core.metadata.image import BrokerImage
from odradek.core.metadata.records import Endpoint

LISTENER = "INTERNAL"


def broker(broker_id: int, rack: str | None = None, fenced: bool = False, host: str | None = None) -> BrokerImage:
    endpoints: tuple[Endpoint, ...] = ()
    if host is not None:
        external = Endpoint(name="EXTERNAL", host="balancer", port=9000 + broker_id, security_protocol=0)
        endpoints = (external, Endpoint(name=LISTENER, host=host, port=9000 + broker_id, security_protocol=0))
    return BrokerImage(
        id=broker_id,
        epoch=1,
        incarnation_id=UUID(int=1),
        endpoints=endpoints,
        features=(),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
    )


def test_three_brokers_lead_one_of_three_partitions_each() -> None:
    for seed in range(20):
        placed = Placement([broker(number) for number in (1, 2, 3)], Random(seed), LISTENER).place(3, 3)
        assert sorted(replicas[0] for replicas in placed) == [1, 2, 3]
        assert all(sorted(replicas) == [1, 2, 3] for replicas in placed)


@given(
    st.dictionaries(st.integers(1, 40), st.sampled_from([None, "a", "b", "c"]), min_size=1),
    st.integers(1, 6),
    st.integers(1, 60),
    st.integers(0, 9),
)
def test_leaders_and_replicas_are_balanced(
    racks: dict[int, str | None], replication_factor: int, partitions: int, seed: int
) -> None:
    replication_factor = min(replication_factor, len(racks))
    placed = Placement([broker(number, rack) for number, rack in racks.items()], Random(seed), LISTENER).place(
        partitions, replication_factor
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    for replicas in placed:
        used = {racks[replica] for replica in replicas}
        assert len(used) == min(replication_factor, len(set(racks.values())))
    if len(set(racks.values())) == 1:
        leaders = Counter(replicas[0] for replicas in placed)
        counts = [leaders[number] for number in racks]
        assert max(counts) - min(counts) <= 1


def test_fenced_brokers_are_never_preferred_leaders() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    placed = Placement(brokers, Random(1), LISTENER).place(20, 3)
    assert {replicas[0] for replicas in placed} == {1, 3}
    assert all(2 in replicas for replicas in placed)


def test_invalid_placements_are_rejected() -> None:
    with pytest.raises(KafkaError, match="only 1 broker"):
        Placement([broker(1)], Random(1), LISTENER).place(1, 2)
    with pytest.raises(KafkaError, match="All brokers are currently fenced"):
        Placement([broker(1, fenced=True)], Random(1), LISTENER).place(1, 1)
    with pytest.raises(KafkaError, match="All brokers are currently fenced"):
        Placement([], Random(1), LISTENER).place(1, 1)
    with pytest.raises(KafkaError, match="must be positive"):
        Placement([broker(1)], Random(1), LISTENER).place(1, 0)


class TestHosts:
    def test_replicas_are_on_different_hosts(self) -> None:
        """Two computers with two brokers each: Kafka's placement knows only brokers."""
        brokers = [broker(number, host="a" if number < 3 else "b") for number in (1, 2, 3, 4)]
        for seed in range(20):
            placed = Placement(brokers, Random(seed), LISTENER).place(12, 2)
            assert all((one < 3) != (other < 3) for one, other in placed)

    def test_leaders_and_followers_are_balanced_over_brokers_of_equal_hosts(self) -> None:
        brokers = [broker(number, host=f"host{number // 4}") for number in range(12)]
        placed = Placement(brokers, Random(3), LISTENER).place(12, 3)
        assert all(len({number // 4 for number in replicas}) == 3 for replicas in placed)
        assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(12), 1)
        assert Counter(number for replicas in placed for number in replicas) == dict.fromkeys(range(12), 3)

    def test_racks_come_before_hosts(self) -> None:
        brokers = [
            broker(1, "x", host="a"),
            broker(2, "y", host="a"),
            broker(3, "y", host="b"),
            broker(4, "y", host="c"),
        ]
        for seed in range(20):
            for replicas in Placement(brokers, Random(seed), LISTENER).place(8, 2):
                assert 1 in replicas
                assert replicas != (1, 2)

    def test_host_names_are_compared_without_case(self) -> None:
        brokers = [broker(1, host="A.local"), broker(2, host="a.LOCAL"), broker(3, host="b")]
        assert all(3 in replicas for replicas in Placement(brokers, Random(1), LISTENER).place(9, 2))

    def test_more_replicas_than_hosts_use_all_hosts(self) -> None:
        brokers = [broker(number, host="a" if number < 3 else "b") for number in (1, 2, 3, 4)]
        for replicas in Placement(brokers, Random(1), LISTENER).place(12, 3):
            assert len({number < 3 for number in replicas}) == 2

    def test_fenced_broker_of_another_host_comes_before_a_second_broker_of_the_same(self) -> None:
        """As with racks: the placement outlives the failure of a host."""
        brokers = [broker(1, host="a"), broker(2, host="a"), broker(3, host="b", fenced=True)]
        placed = Placement(brokers, Random(1), LISTENER).place(6, 2)
        assert all(replicas[0] in (1, 2) and replicas[1] == 3 for replicas in placed)

    def test_one_host_is_as_good_as_none(self) -> None:
        for seed in range(10):
            one_host = Placement([broker(number, host="a") for number in range(5)], Random(seed), LISTENER)
            unknown = Placement([broker(number) for number in range(5)], Random(seed), LISTENER)
            assert one_host.place(20, 3) == unknown.place(20, 3)


@given(
    st.dictionaries(
        st.integers(1, 30), st.tuples(st.sampled_from([None, "x", "y"]), st.sampled_from("abcd")), min_size=1
    ),
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(0, 9),
)
def test_hosts_are_used_as_far_as_racks_allow(
    places: dict[int, tuple[str | None, str]], replication_factor: int, partitions: int, seed: int
) -> None:
    """Hosts of different racks are different hosts."""
    replication_factor = min(replication_factor, len(places))
    host_of = {number: f"{rack}-{host}" for number, (rack, host) in places.items()}
    brokers = [broker(number, rack, host=host_of[number]) for number, (rack, _) in places.items()]
    for replicas in Placement(brokers, Random(seed), LISTENER).place(partitions, replication_factor):
        assert len(set(replicas)) == replication_factor
        for rack in {rack for rack, _ in places.values()}:
            in_rack = [number for number in replicas if places[number][0] == rack]
            hosts = {host_of[number] for number in places if places[number][0] == rack}
            assert len({host_of[number] for number in in_rack}) == min(len(in_rack), len(hosts))
