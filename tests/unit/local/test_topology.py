import pytest

from odradek.local.topology import BrokerCount, Topology
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
def test_new_topologies(
    brokers: int, controllers: int | None, broker_ids: tuple[int, ...], controller_ids: tuple[int, ...]
) -> None:
    topology = Topology.new(brokers, controllers)
    assert (topology.brokers, topology.controllers) == (broker_ids, controller_ids)
    assert topology.is_separated is (controllers is not None)


def test_existing_nodes_are_kept_without_options() -> None:
    for topology in (Topology.new(1, None), Topology.new(3, None), Topology.new(4, 3)):
        assert topology.grow(None, None) == topology
        assert topology.grow(BrokerCount(len(topology.brokers)), None) == topology
    assert Topology.new(4, 3).grow(BrokerCount(4), 3) == Topology.new(4, 3)


def test_added_brokers_are_not_controllers() -> None:
    grown = Topology.new(1, None).grow(BrokerCount(4), None)
    assert (grown.brokers, grown.controllers) == ((1, 2, 3, 4), (1,))
    grown = Topology.new(2, 3).grow(BrokerCount(3), 3)
    assert (grown.brokers, grown.controllers) == ((4, 5, 6), (1, 2, 3))


@pytest.mark.parametrize(
    ("existing", "brokers", "controllers", "reason"),
    [
        (Topology.new(3, None), 2, None, "has 3 brokers; --brokers 2 would remove brokers with data"),
        (Topology.new(3, None), 3, 3, "has 3 combined controllers, not 3 dedicated"),
        (Topology.new(1, None), 1, 1, "has 1 combined controller, not 1 dedicated"),
        (Topology.new(4, 3), 4, 5, "has 3 dedicated controllers, not 5"),
        (Topology.new(4, 3), 4, 1, "has 3 dedicated controllers, not 1"),
    ],
)
def test_other_changes_are_rejected(existing: Topology, brokers: int, controllers: int | None, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        existing.grow(None if brokers is None else BrokerCount(brokers), controllers)
