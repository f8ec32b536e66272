"""Rows for the KRaft quorum: leader, voters, observers and their lag."""

from odradek.base.ids import uuid_to_text
from odradek.client.quorum import UNRESPONSIVE_MS, QuorumReplica, QuorumStatus, leaders_time_ms
from odradek.console.readings.table import Cell, Column, Row, Tone, format_count, inert
from odradek.text.times import format_span

ADD = "Add voter"
REMOVE = "Remove voter"

COLUMNS = (
    Column("node", "Node", is_number=True),
    Column("role", "Role"),
    Column("state", "State"),
    Column("lag", "Lag", is_number=True),
    Column("end", "Log end", is_number=True),
    Column("directory", "Directory"),
    Column("endpoints", "Endpoints"),
)


def quorum_sentence(quorum: QuorumStatus) -> str:
    voters, unresponsive = quorum.voters, [one for one in quorum.voters if is_unresponsive(quorum, one)]
    leader = f"Node {quorum.leader_id} leads" if quorum.leader_id >= 0 else "No leader"
    bearable = (len(voters) - 1) // 2 - len(unresponsive)
    spare = f"{format_count(bearable, 'more voter')} may fail" if bearable > 0 else "no further voter may fail"
    return (
        f"{leader} in epoch {quorum.leader_epoch:,}; {format_count(len(voters), 'voter')},"
        f" {len(unresponsive)} unresponsive:"
        f" {spare}. {quorum.high_watermark:,} metadata records are committed."
    )


def quorum_rows(quorum: QuorumStatus) -> list[Row]:
    return [
        Row(
            str(one.id),
            {
                "node": str(one.id),
                "role": _role(quorum, one),
                "state": _state(quorum, one),
                "lag": "unknown" if quorum.lag(one) is None else f"{quorum.lag(one):,}",
                "end": "unknown" if one.log_end_offset < 0 else f"{one.log_end_offset:,}",
                "directory": uuid_to_text(one.directory_id) if one.directory_id else "unknown",
                "endpoints": inert(", ".join(map(str, one.endpoints))) or "unknown",
            },
            _actions(quorum, one),
        )
        for one in quorum.replicas
    ]


def listener_of(quorum: QuorumStatus) -> str:
    """Returns the name of the voters' controller listener."""
    return next((one.endpoints[0].listener for one in quorum.voters if one.endpoints), "CONTROLLER")


def _actions(quorum: QuorumStatus, one: QuorumReplica) -> tuple[str, ...]:
    """Voters without a directory ID belong to a static voter set."""
    if any(voter.directory_id is None for voter in quorum.voters) or one.directory_id is None:
        return ()
    if one.is_voter:
        return (REMOVE,) if len(quorum.voters) > 1 else ()
    return (ADD,)


def is_unresponsive(quorum: QuorumStatus, one: QuorumReplica) -> bool:
    return one.id != quorum.leader_id and leaders_time_ms(quorum) - one.last_fetch_ms > UNRESPONSIVE_MS


def _role(quorum: QuorumStatus, one: QuorumReplica) -> str:
    if one.id == quorum.leader_id:
        return "leader"
    return "voter" if one.is_voter else "observer"


def _state(quorum: QuorumStatus, one: QuorumReplica) -> Cell:
    if not is_unresponsive(quorum, one):
        return Cell("follows" if one.id != quorum.leader_id else "active", tone=Tone.GOOD)
    if one.last_fetch_ms < 0:
        return Cell("never fetched", tone=Tone.BAD)
    return Cell(f"unresponsive for {format_span(leaders_time_ms(quorum) - one.last_fetch_ms)}", tone=Tone.BAD)
