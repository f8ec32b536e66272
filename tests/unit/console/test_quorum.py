from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from odradek.client.cluster import Cluster
from odradek.client.quorum import ControllerEndpoint, QuorumReplica, QuorumStatus
from odradek.console.actions import quorum as actions
from odradek.console.actions.action import Refused
from odradek.console.actions.quorum import AddVoter, RemoveVoter
from odradek.console.readings.quorum import ADD, REMOVE, listener_of, quorum_rows, quorum_sentence

NOW_MS = 1_000_000


def replica(node: int, *, end: int, fetched_ms: int = NOW_MS, is_voter: bool = True) -> QuorumReplica:
    return QuorumReplica(
        id=node,
        directory_id=None,
        is_voter=is_voter,
        log_end_offset=end,
        last_fetch_ms=fetched_ms,
        last_caught_up_ms=fetched_ms,
        endpoints=(),
    )


def test_quorum_rows_show_leader_followers_and_unresponsive_voters() -> None:
    quorum = QuorumStatus(
        leader_id=1,
        leader_epoch=7,
        high_watermark=90,
        replicas=(
            replica(1, end=100),
            replica(2, end=95),
            replica(3, end=40, fetched_ms=NOW_MS - 60_000),
            replica(4, end=-1, fetched_ms=-1, is_voter=False),
        ),
    )
    rows = [tuple(row.text(name) for name in ("node", "role", "state", "lag")) for row in quorum_rows(quorum)]
    assert rows == [
        ("1", "leader", "active", "0"),
        ("2", "voter", "follows", "5"),
        ("3", "voter", "unresponsive for 60 s", "60"),
        ("4", "observer", "never fetched", "unknown"),
    ]
    assert quorum_sentence(quorum) == (
        "Node 1 leads in epoch 7; 3 voters, 1 unresponsive: no further voter may fail."
        " 90 metadata records are committed."
    )


DIRECTORIES = {node: UUID(int=node) for node in (1, 2, 3)}
NO_CLUSTER = cast(Cluster, object())


def dynamic() -> QuorumStatus:
    """Two voters, and an observer that could become the third voter."""
    endpoint = ControllerEndpoint("INNER", "host", 9093)
    voters = [replace(replica(node, end=9), directory_id=DIRECTORIES[node], endpoints=(endpoint,)) for node in (1, 2)]
    observer = replace(replica(3, end=4, is_voter=False), directory_id=DIRECTORIES[3])
    return QuorumStatus(leader_id=1, leader_epoch=1, high_watermark=9, replicas=(*voters, observer))


class Quorum:
    def __init__(self, status: QuorumStatus) -> None:
        self.status = status
        self.done: list[Any] = []

    def __call__(self, cluster: Cluster) -> "Quorum":
        return self

    def describe(self) -> QuorumStatus:
        return self.status

    def add_voter(self, node: int, directory: UUID, endpoints: Any, *, cluster_id: str | None) -> None:
        self.done.append((node, directory, tuple(endpoints)))

    def remove_voter(self, node: int, directory: UUID) -> None:
        self.done.append((node, directory))


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    fake = Quorum(dynamic())
    monkeypatch.setattr(actions, "QuorumAdmin", fake)
    return fake


def test_remove_voter_uses_the_voters_directory_id(quorum: Quorum) -> None:
    assert [row.actions for row in quorum_rows(quorum.status)] == [(REMOVE,), (REMOVE,), (ADD,)]
    preview = RemoveVoter(1).preview(NO_CLUSTER)
    assert preview.sentence.startswith("Removes node 1 from the voter set: 1 voter remains, of which 0 may fail.")
    assert preview.warnings == ["It is the active controller: another controller must be elected first."]
    assert preview.typed == "1"
    RemoveVoter(2).carry_out(NO_CLUSTER)
    assert quorum.done == [(2, DIRECTORIES[2])]
    with pytest.raises(Refused, match=r"Node 3 is not a voter\. Voters: 1, 2"):
        RemoveVoter(3).preview(NO_CLUSTER)
    quorum.status = replace(quorum.status, replicas=quorum.status.replicas[:1])
    with pytest.raises(Refused, match="the only voter"):
        RemoveVoter(1).preview(NO_CLUSTER)


def test_add_voter_uses_the_entered_listener_address(quorum: Quorum) -> None:
    assert listener_of(quorum.status) == "INNER"
    add = AddVoter(node=3, listener="INNER", address="there:9099")
    preview = add.preview(NO_CLUSTER)
    assert preview.sentence == "Node 3, at INNER://there:9099, joins the voter set: 3 voters, of which 1 may fail."
    assert preview.warnings == ["It is 5 records behind and must catch up first."]
    add.carry_out(NO_CLUSTER)
    assert quorum.done == [(3, DIRECTORIES[3], (ControllerEndpoint("INNER", "there", 9099),))]


@pytest.mark.parametrize(
    ("node", "address", "why"),
    [(2, "h:1", "is already a voter"), (7, "h:1", "does not know node 7"), (3, "h:port", "HOST:PORT")],
)
def test_add_voter_refuses_invalid_nodes_and_addresses(quorum: Quorum, node: int, address: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        AddVoter(node=node, listener="INNER", address=address).preview(NO_CLUSTER)


def test_static_voter_set_cannot_be_changed(quorum: Quorum) -> None:
    fixed = tuple(replace(one, directory_id=None) for one in quorum.status.replicas)
    quorum.status = replace(quorum.status, replicas=fixed)
    assert all(row.actions == () for row in quorum_rows(quorum.status))
    for action in (RemoveVoter(2), AddVoter(node=3, listener="INNER", address="h:1")):
        with pytest.raises(Refused, match=r"is static .controller\.quorum\.voters"):
            action.preview(NO_CLUSTER)
