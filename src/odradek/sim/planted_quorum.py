"""Bugs of consensus, switched on by name. What finds them are three nodes: see `planted`."""

from typing import Any, Final

from odradek.node.quorum.store import QuorumStore
from odradek.raft.log_view import LogView
from odradek.raft.progress import ReplicationProgress
from odradek.raft.quorum_state import FILE_NAME, QuorumState
from odradek.sim.planted_bug import PlantedBug
from odradek.sim.scenarios import THREE_NODES


def _leave_vote_in_memory(sound: Any) -> Any:
    def write_quorum_state(self: QuorumStore, state: QuorumState, kraft_version: int, voter_ids: Any) -> None:
        path = self._path(FILE_NAME)
        file = self._disk.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write_at(0, state.encode(kraft_version, voter_ids))
        self._disk.rename(path + ".tmp", path, durable=False)

    return write_quorum_state


def _take_for_synced(sound: Any) -> Any:
    return property(lambda log: log.loading is None)


def _one_too_few(sound: Any) -> Any:
    def majority_end_offset(progress: ReplicationProgress) -> int | None:
        ends = [one.end_offset for one in progress.voters.values() if one.end_offset is not None]
        needed = max(1, len(progress.voters) // 2)
        return sorted(ends, reverse=True)[needed - 1] if len(ends) >= needed else None

    return majority_end_offset


def _bug(name: str, what: str, owner: Any, attribute: str, breaks: Any) -> PlantedBug:
    return PlantedBug(name=name, what=what, scenario=THREE_NODES, owner=owner, attribute=attribute, breaks=breaks)


QUORUM_BUGS: Final = (
    _bug(
        "vote-not-synced",
        "a vote is given before it is on the disk",
        QuorumStore,
        "write_quorum_state",
        _leave_vote_in_memory,
    ),
    _bug(
        "fetch-before-the-sync",
        "a voter acknowledges what is only in its memory",
        LogView,
        "is_synced",
        _take_for_synced,
    ),
    _bug(
        "commit-without-majority",
        "one voter less than a majority is enough",
        ReplicationProgress,
        "majority_end_offset",
        _one_too_few,
    ),
)
