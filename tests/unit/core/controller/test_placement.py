from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import KafkaError
from odradek.core.controller.placement import Placement
from odradek.core.metadata.image import BrokerImage


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        id=broker_id,
        epoch=1,
        incarnation_id=UUID(int=1),
        endpoints=(),
        features=(),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(),
    )


def test_three_brokers_lead_one_of_three_partitions_each() -> None:
    for seed in range(20):
        placed = Placement([broker(number) for number in (1, 2, 3)], Random(seed)).place(3, 3)
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
    placed = Placement([broker(number, rack) for number, rack in racks.items()], Random(seed)).place(
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
    placed = Placement(brokers, Random(1)).place(20, 3)
    assert {replicas[0] for replicas in placed} == {1, 3}
    assert all(2 in replicas for replicas in placed)


def test_invalid_placements_are_rejected() -> None:
    with pytest.raises(KafkaError, match="only 1 broker"):
        Placement([broker(1)], Random(1)).place(1, 2)
    with pytest.raises(KafkaError, match="All brokers are currently fenced"):
        Placement([broker(1, fenced=True)], Random(1)).place(1, 1)
    with pytest.raises(KafkaError, match="All brokers are currently fenced"):
        Placement([], Random(1)).place(1, 1)
    with pytest.raises(KafkaError, match="must be positive"):
        Placement([broker(1)], Random(1)).place(1, 0)
