from odradek.client.quorum import QuorumReplica, QuorumStatus
from odradek.console.readings.quorum import quorum_rows, quorum_sentence

NOW_MS = 1_000_000


def replica(node: int, *, end: int, heard_ms: int = NOW_MS, is_voter: bool = True) -> QuorumReplica:
    return QuorumReplica(
        id=node,
        directory_id=None,
        is_voter=is_voter,
        log_end_offset=end,
        last_fetch_ms=heard_ms,
        last_caught_up_ms=heard_ms,
        endpoints=(),
    )


def test_who_leads_who_follows_and_who_is_silent() -> None:
    quorum = QuorumStatus(
        leader_id=1,
        leader_epoch=7,
        high_watermark=90,
        replicas=(
            replica(1, end=100),
            replica(2, end=95),
            replica(3, end=40, heard_ms=NOW_MS - 60_000),
            replica(4, end=-1, heard_ms=-1, is_voter=False),
        ),
    )
    rows = [tuple(row.text(name) for name in ("node", "role", "state", "lag")) for row in quorum_rows(quorum)]
    assert rows == [
        ("1", "leader", "active", "0"),
        ("2", "voter", "follows", "5"),
        ("3", "voter", "silent for 60 s", "60"),
        ("4", "observer", "never heard of", "not known"),
    ]
    assert quorum_sentence(quorum) == (
        "Node 1 leads in epoch 7; 3 voters, 1 of them silent: no voter more may fail."
        " 90 records of metadata are committed."
    )
