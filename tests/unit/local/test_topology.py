import pytest

from odradek.local.topology import Topology
from odradek.text.errors import UserError


@pytest.mark.parametrize(
    ("brokers", "controllers", "broker_ids", "controller_ids"),
    [
        (1, None, (1,), (1,)),
        (2, None, (1, 2), (1,)),
        (3, None, (1, 2, 3), (1, 2, 3)),
        (5, None, (1, 2, 3, 4, 5), (1, 2, 3)),
        (4, 3, (4, 5, 6, 7), (1, 2, 3)),
        (1, 1, (2,), (1,)),
    ],
)
def test_new_clusters(
    brokers: int, controllers: int | None, broker_ids: tuple[int, ...], controller_ids: tuple[int, ...]
) -> None:
    topology = Topology.new(brokers, controllers)
    assert (topology.brokers, topology.controllers) == (broker_ids, controller_ids)
    assert topology.is_separated is (controllers is not None)


def test_what_is_there_stays_unless_told_otherwise() -> None:
    for topology in (Topology.new(1, None), Topology.new(3, None), Topology.new(4, 3)):
        assert topology.grown(None, None) == topology
        assert topology.grown(len(topology.brokers), None) == topology
    assert Topology.new(4, 3).grown(4, 3) == Topology.new(4, 3)


def test_brokers_can_be_added_and_get_no_vote() -> None:
    grown = Topology.new(1, None).grown(4, None)
    assert (grown.brokers, grown.controllers) == ((1, 2, 3, 4), (1,))
    grown = Topology.new(2, 3).grown(3, 3)
    assert (grown.brokers, grown.controllers) == ((4, 5, 6), (1, 2, 3))


@pytest.mark.parametrize(
    ("there", "brokers", "controllers", "reason"),
    [
        (Topology.new(3, None), 2, None, "has 3 brokers, and --brokers 2 would leave out one"),
        (Topology.new(3, None), 3, 3, "has 3 controllers that are brokers too, not 3 of their own"),
        (Topology.new(1, None), 1, 1, "has 1 controller that are brokers too"),
        (Topology.new(4, 3), 4, 5, "has 3 controllers of their own, not 5"),
        (Topology.new(4, 3), 4, 1, "has 3 controllers of their own, not 1"),
    ],
)
def test_other_changes_are_refused(there: Topology, brokers: int, controllers: int | None, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        there.grown(brokers, controllers)
