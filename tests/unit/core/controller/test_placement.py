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
        """A host is within its rack, as in reassignment plans."""
        brokers = [
            broker(1, "x", host="a"),
            broker(2, "y", host="a"),
            broker(3, "y", host="a"),
            broker(4, "y", host="b"),
        ]
        for seed in range(20):
            for replicas in Placement(brokers, Random(seed), LISTENER).place(8, 2):
                assert 1 in replicas
            for replicas in Placement(brokers, Random(seed), LISTENER).place(8, 3):
                assert {1, 4} < set(replicas)

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


def place_as_kafka(
    brokers: list[BrokerImage], random: Random, count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """A model of Kafka's StripedReplicaPlacer, which does not know hosts."""

    def shuffle(items: list) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = random.randrange(last + 1)
            items[last], items[other] = items[other], items[last]

    def take(stripe: dict) -> int | None:
        ids = stripe["ids"]
        if ids and stripe["round"] != round_:
            stripe |= {"round": round_, "taken": 0, "offset": (stripe["offset"] + 1) % len(ids)}
        if stripe["taken"] == len(ids):
            return None
        stripe["taken"] += 1
        return ids[(stripe["offset"] + stripe["taken"] - 1) % len(ids)]

    racks = []
    for name in sorted({broker.rack for broker in brokers}, key=lambda name: (name is not None, name or "")):
        stripes = []
        for fenced in (True, False):
            ids = sorted(broker.id for broker in brokers if broker.rack == name and broker.fenced is fenced)
            offset = random.randrange(len(ids)) if ids else 0
            stripes.append({"ids": ids, "offset": offset, "round": 0, "taken": 0})
        racks.append(stripes)
    usable_count = sum(not broker.fenced for broker in brokers)
    first, round_, placed = random.randrange(len(racks)), 0, []
    for _ in range(count):
        if round_ == usable_count > 1:
            shuffle(racks)
            for stripes in racks:
                for stripe in stripes:
                    shuffle(stripe["ids"])
            round_ = 0
        first %= len(racks)
        number = first
        while (leader := take(racks[number][1])) is None:
            number = (number + 1) % len(racks)
        replicas, skipped, number = [leader], number, first
        while len(replicas) < replication_factor:
            if number == skipped:
                skipped = None
            elif (follower := take(racks[number][1])) is not None or (follower := take(racks[number][0])) is not None:
                replicas.append(follower)
            number = (number + 1) % len(racks)
        placed.append(tuple(replicas))
        round_, first = round_ + 1, first + 1
    return placed


@given(
    st.dictionaries(st.integers(1, 30), st.tuples(st.sampled_from([None, "x", "y"]), st.booleans()), min_size=1),
    st.sampled_from(["host per broker", "host per rack", "one host", "no host"]),
    st.integers(1, 5),
    st.integers(1, 60),
    st.integers(0, 9),
)
def test_placement_is_that_of_kafka_unless_brokers_of_a_rack_share_hosts(
    places: dict[int, tuple[str | None, bool]], hosts: str, replication_factor: int, partitions: int, seed: int
) -> None:
    brokers = []
    for number, (rack, fenced) in places.items():
        names = {"host per broker": f"host{number}", "host per rack": f"host-{rack}", "one host": "host"}
        brokers.append(broker(number, rack, fenced and number != min(places), host=names.get(hosts)))
    replication_factor = min(replication_factor, len(brokers))
    placed = Placement(iter(brokers), Random(seed), LISTENER).place(partitions, replication_factor)
    assert placed == place_as_kafka(brokers, Random(seed), partitions, replication_factor)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(2, 3), st.integers(1, 60), st.integers(0, 99))
def test_hosts_of_equal_size_get_equal_shares(
    sizes: list[int], replication_factor: int, rounds: int, seed: int
) -> None:
    """With hosts of equal size; else every broker leads its share, and brokers of small hosts follow more."""
    host_of = dict(enumerate(name for name, size in enumerate(sizes) for _ in range(size)))
    replication_factor = min(replication_factor, len(sizes))
    brokers = [broker(number, host=str(name)) for number, name in host_of.items()]
    placed = Placement(brokers, Random(seed), LISTENER).place(rounds * len(brokers), replication_factor)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(host_of, rounds)
    if len(set(sizes)) == 1:
        counts = Counter(number for replicas in placed for number in replicas)
        assert counts == dict.fromkeys(host_of, rounds * replication_factor)


def test_replicas_that_skip_a_host_are_balanced_over_the_others() -> None:
    """Four brokers on one host, one on each of two others, which follow most of its partitions."""
    brokers = [broker(number, host="a" if number < 4 else f"b{number}") for number in range(6)]
    for seed in range(20):
        placed = Placement(brokers, Random(seed), LISTENER).place(6, 2)
        counts = Counter(number for replicas in placed for number in replicas)
        assert abs(counts[4] - counts[5]) <= 1


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
    replication_factor = min(replication_factor, len(places))
    host_of = {number: host for number, (_, host) in places.items()}
    brokers = [broker(number, rack, host=host_of[number]) for number, (rack, _) in places.items()]
    for replicas in Placement(brokers, Random(seed), LISTENER).place(partitions, replication_factor):
        assert len(set(replicas)) == replication_factor
        for rack in {rack for rack, _ in places.values()}:
            in_rack = [number for number in replicas if places[number][0] == rack]
            hosts = {host_of[number] for number in places if places[number][0] == rack}
            assert len({host_of[number] for number in in_rack}) == min(len(in_rack), len(hosts))
