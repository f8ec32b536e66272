from odradek.cli.cluster import nodes_of
from odradek.client.address import Address
from odradek.client.membership import Member, Members
from odradek.client.quorum import ControllerEndpoint, QuorumReplica, QuorumStatus

NOW_MS = 1_000_000


def broker(node_id: int, *, is_fenced: bool = False) -> Member:
    return Member(id=node_id, address=Address("host", 9092 + node_id), rack=None, is_fenced=is_fenced)


def replica(node_id: int, *, fetched_ms: int, is_voter: bool = True) -> QuorumReplica:
    return QuorumReplica(
        id=node_id,
        directory_id=None,
        is_voter=is_voter,
        log_end_offset=10,
        last_fetch_ms=fetched_ms,
        last_caught_up_ms=fetched_ms,
        endpoints=(ControllerEndpoint("CONTROLLER", "host", 9000 + node_id),) if is_voter else (),
    )


def test_nodes_are_listed_once_with_roles_and_states() -> None:
    members = Members(cluster_id="c", controller_id=1, nodes={1: broker(1), 5: broker(5), 6: broker(6, is_fenced=True)})
    quorum = QuorumStatus(
        leader_id=1,
        leader_epoch=3,
        high_watermark=10,
        replicas=(
            replica(1, fetched_ms=NOW_MS),
            replica(2, fetched_ms=NOW_MS - 400),
            replica(3, fetched_ms=NOW_MS - 30_000),
            replica(4, fetched_ms=-1),
            replica(5, fetched_ms=NOW_MS - 100, is_voter=False),
            replica(7, fetched_ms=NOW_MS - 100, is_voter=False),
            replica(8, fetched_ms=NOW_MS - 30_000, is_voter=False),
        ),
    )
    assert [(node.id, node.roles, node.broker_state, node.controller_state) for node in nodes_of(members, quorum)] == [
        (1, ("broker", "controller"), "online", "active"),
        (2, ("controller",), None, "voter"),
        (3, ("controller",), None, "voter, unresponsive for 30 s"),
        (4, ("controller",), None, "voter, never connected"),
        (5, ("broker",), "online", None),
        (6, ("broker",), "fenced", None),
        (7, ("controller",), None, "observer"),
    ]
    assert nodes_of(members, quorum)[0].endpoints == ("host:9093", "CONTROLLER://host:9001")
