"""A run as text: messages, writes, leaders and crashes."""

from odradek.base.errors import ErrorCode
from odradek.core.raft import effects, events, messages
from odradek.core.raft.batch import Batch
from odradek.records.control import ControlMessage, KRaftVersion, Voters


class Timeline:
    """Omits internal events, and Fetches that repeat an earlier one with only Fetches in between."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._fetches: set[str] = set()

    def _line(self, now_ms: int, text: str) -> None:
        self._fetches.clear()
        self.lines.append(f"{now_ms:5} ms  {text}")

    def on_note(self, now_ms: int, text: str) -> None:
        self._line(now_ms, f"* {text}")

    def on_event(self, now_ms: int, node_id: int, event: events.Event) -> None:
        match event:
            case events.ConnectionRefused(other):
                self._line(now_ms, f"{node_id}        is refused by {other}")
            case events.SnapshotTaken(snapshot_id):
                self._line(now_ms, f"{node_id}        takes a snapshot up to {snapshot_id.end_offset}")
            case events.SnapshotLoaded(snapshot_id):
                self._line(now_ms, f"{node_id}        has loaded the snapshot up to {snapshot_id.end_offset}")
            case events.LogStartAdvanced(snapshot_id):
                self._line(now_ms, f"{node_id}        drops its log before {snapshot_id.end_offset}")

    def on_message(
        self, now_ms: int, source: int, destination: int, message: messages.Request | messages.Response
    ) -> None:
        to = "admin" if destination < 0 else str(destination)
        text = f"{source} -> {to:<3} {text_of_message(message)}"
        if not isinstance(message, messages.FetchRequest | messages.FetchResponse):
            self._line(now_ms, text)
        elif text not in self._fetches:
            self._fetches.add(text)
            self.lines.append(f"{now_ms:5} ms  {text}")

    def on_effect(self, now_ms: int, node_id: int, effect: effects.Effect) -> None:
        text = _text_of_effect(effect)
        if text is not None:
            self._line(now_ms, f"{node_id}        {text}")


def _text_of_effect(effect: effects.Effect) -> str | None:
    match effect:
        case effects.Append(_, batches):
            return "writes " + ", ".join(map(_text_of_batch, batches))
        case effects.Truncate(_, end_offset):
            return f"truncates its log to {end_offset}"
        case effects.LoadSnapshot(_, snapshot_id):
            return f"replaces its log with the snapshot up to {snapshot_id.end_offset}"
        case effects.BecameLeader(epoch, start):
            return f"leads epoch {epoch}, which starts at {start}"
        case effects.LeadershipConfirmed(epoch):
            return f"confirms its leadership: a record of epoch {epoch} is committed"
        case effects.LeadershipLost(epoch):
            return f"stops leading epoch {epoch}"
        case effects.HighWatermarkAdvanced(offset):
            return f"advances its high watermark to {offset}"
        case effects.ReadyToStop():
            return "may stop"
        case _:
            return None


def _text_of_batch(batch: Batch) -> str:
    offsets = str(batch.base_offset)
    if batch.last_offset > batch.base_offset:
        offsets += f"-{batch.last_offset}"
    content = ", ".join(map(_text_of_control, batch.control)) or batch.data.decode()
    return f"{offsets} of epoch {batch.epoch} ({content})"


def _text_of_control(message: ControlMessage) -> str:
    if isinstance(message, Voters):
        return "voters " + " ".join(str(voter.voter_id) for voter in message.voters)
    if isinstance(message, KRaftVersion):
        return f"kraft.version {message.kraft_version}"
    return "leader change"


def text_of_message(message: messages.Request | messages.Response) -> str:
    name = type(message).__name__
    kind, is_response = (name[:-8], True) if name.endswith("Response") else (name[:-7], False)
    detail = _response_detail(message) if is_response else _request_detail(message)
    return f"{kind}{'' if is_response else '?'} {detail}".rstrip()


def _request_detail(message: object) -> str:
    match message:
        case messages.VoteRequest():
            kind = "pre-vote " if message.pre_vote else ""
            end = f"log end {message.last_offset}, epoch {message.last_offset_epoch}"
            return f"{kind}in epoch {message.replica_epoch}; {end}"
        case messages.BeginQuorumEpochRequest():
            return f"epoch {message.leader_epoch}"
        case messages.EndQuorumEpochRequest():
            best = " ".join(str(key.node_id) for key in message.preferred_candidates) or "none"
            return f"epoch {message.leader_epoch}; preferred candidates: {best}"
        case messages.FetchRequest():
            return (
                f"from {message.fetch_offset}, last epoch {message.last_fetched_epoch}; in epoch "
                f"{message.current_leader_epoch}, high watermark {message.high_watermark}"
            )
        case messages.FetchSnapshotRequest():
            return f"up to {message.snapshot_id.end_offset}, from byte {message.position}"
        case messages.AddRaftVoterRequest() | messages.RemoveRaftVoterRequest() | messages.UpdateRaftVoterRequest():
            return f"node {message.voter.node_id}"
        case _:
            return ""


def _response_detail(message: object) -> str:
    error = getattr(message, "error", ErrorCode.none)
    if error is not ErrorCode.none:
        return error.name.upper() + _naming(message)
    match message:
        case messages.VoteResponse():
            return ("granted" if message.vote_granted else "rejected") + _naming(message)
        case messages.FetchResponse():
            return _fetched(message)
        case messages.FetchSnapshotResponse():
            return f"bytes {message.position} to {message.position + len(message.data)} of {message.size_bytes}"
        case _:
            return "ok"


def _fetched(message: messages.FetchResponse) -> str:
    if message.diverging_epoch is not None:
        found = f"diverging epoch {message.diverging_epoch.epoch}, end offset {message.diverging_epoch.offset}"
    elif message.snapshot_id is not None:
        found = f"snapshot up to {message.snapshot_id.end_offset}"
    elif message.batches:
        found = f"{message.batches[0].base_offset}-{message.batches[-1].last_offset}"
    else:
        found = "no records"
    return found + ("" if message.high_watermark < 0 else f"; high watermark {message.high_watermark}")


def _naming(message: object) -> str:
    if not isinstance(message, messages.LeaderNaming) or message.leader_epoch < 0:
        return ""
    leader = "no leader" if message.leader_id < 0 else f"leader {message.leader_id}"
    return f"; epoch {message.leader_epoch}, {leader}"
