"""One replica alone: the test supplies every event and sees every effect."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from odradek.base.ids import ZERO_UUID
from odradek.base.ports import Random
from odradek.core.metadata.snapshot import SnapshotId
from odradek.core.raft import effects, events, messages
from odradek.core.raft.batch import Batch
from odradek.core.raft.quorum_state import QuorumState
from odradek.core.raft.settings import Identity, RaftSettings
from odradek.core.raft.state_machine import RaftStateMachine
from odradek.core.raft.stored_state import StoredState
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from odradek.core.raft.voters import Quorum
from tests.raft.world import KRAFT_VERSIONS, directory_of, key_of, registration

T = TypeVar("T")
SETTINGS = RaftSettings(election_timeout_ms=1000, fetch_timeout_ms=2000)


class FixedRandom:
    """Always returns the same share of the range. With 0, election timeouts are exact."""

    def __init__(self, share: float = 0.0) -> None:
        self._share = share

    def random(self) -> float:
        return self._share

    def randrange(self, stop: int, /) -> int:
        return int(stop * self._share)

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


def state(epoch: int, *, leader: int = -1, voted: int = -1) -> QuorumState:
    directory_id = ZERO_UUID if voted < 0 else directory_of(voted)
    return QuorumState(leader_epoch=epoch, leader_id=leader, voted_id=voted, voted_directory_id=directory_id)


class Single:
    """Node 1 of a quorum. `log` lists the epochs of its records."""

    def __init__(
        self,
        *,
        voters: Sequence[int] = (1, 2, 3),
        kraft_version: int = 0,
        log: Sequence[int] = (),
        found: QuorumState | None = None,
        settings: RaftSettings = SETTINGS,
        snapshot: SnapshotId | None = None,
        random: Random | None = None,
        directory: int = 1,
        moved_to: int = 1,
    ) -> None:
        """`directory` and `moved_to` select another disk or another address than the registered one."""
        sets = VoterSet.of(registration(node_id, with_directory=kraft_version > 0) for node_id in voters)
        base = snapshot or SnapshotId(0, 0)
        records = batches(log, base.end_offset)
        self.end = (records[-1].last_offset + 1, records[-1].epoch) if records else tuple(base)
        """End offset and last epoch of the log."""
        durable = StoredState.build(
            quorum_state=found or state(self.end[1]),
            static_voters=VoterSet() if kraft_version else sets,
            base=base,
            base_quorum=Quorum(kraft_version, sets.voters if kraft_version else ()),
            snapshots={base: 100} if snapshot else {},
            batches=records,
        )
        identity = Identity(
            node_id=1,
            directory_id=directory_of(directory),
            cluster_id="cluster",
            endpoints=registration(moved_to, with_directory=True).endpoints,
            kraft_versions=KRAFT_VERSIONS,
        )
        self.key = ReplicaKey(1, identity.directory_id)
        self.machine = RaftStateMachine(identity, settings, random or FixedRandom(), durable)
        self.now_ms = 0
        self.effects: list[effects.Effect] = []
        self._last_sent: dict[type, effects.Send] = {}
        self._request_id = 0
        self._keep(self.machine.start(0))

    def _keep(self, wanted: tuple[effects.Effect, ...]) -> list[effects.Effect]:
        self.effects = list(wanted)
        for effect in wanted:
            if isinstance(effect, effects.Send):
                self._last_sent[type(effect.message)] = effect
            elif isinstance(effect, effects.Append):
                self.end = (effect.batches[-1].last_offset + 1, effect.batches[-1].epoch)
        return self.effects

    # Input
    def step(self, event: events.Event) -> list[effects.Effect]:
        return self._keep(self.machine.step(event, self.now_ms))

    def wait(self, ms: int) -> list[effects.Effect]:
        self.now_ms += ms
        return self.step(events.TimePassed())

    def receive(self, message: messages.Request) -> int:
        self._request_id += 1
        self.step(events.RequestReceived(self._request_id, message))
        return self._request_id

    def request(self, message: messages.Request, kind: type[T]) -> T:
        request_id = self.receive(message)
        return self.response_to(request_id, kind)

    def response_to(self, request_id: int, kind: type[T]) -> T:
        found = [
            effect.message
            for effect in self.effects
            if isinstance(effect, effects.Respond | effects.RespondWithRecords | effects.RespondWithSnapshot)
            and effect.request_id == request_id
        ]
        assert len(found) == 1
        assert isinstance(found[0], kind)
        return found[0]

    def respond(self, send: effects.Send, message: messages.Response) -> list[effects.Effect]:
        return self.step(events.ResponseReceived(send.destination, send.correlation_id, message))

    def sync(self) -> list[effects.Effect]:
        return self.step(events.LogSynced(1 << 40))

    # Output
    def all(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def one(self, kind: type[T]) -> T:
        found = self.all(kind)
        assert len(found) == 1, self.effects
        return found[0]

    def sent(self, kind: type[T]) -> list[tuple[effects.Send, T]]:
        return [(send, send.message) for send in self.all(effects.Send) if isinstance(send.message, kind)]

    def last(self, kind: type) -> effects.Send:
        """The last message of this type, from any step."""
        return self._last_sent[kind]

    def is_before(self, first: type[effects.Effect], second: type[effects.Effect]) -> bool:
        kinds = [type(effect) for effect in self.effects]
        return kinds.index(first) < kinds.index(second)

    # Transitions
    def become_leader(self) -> None:
        """Wins an election after the election timeout, with the votes of all voters."""
        self.wait(2 * SETTINGS.election_timeout_ms)
        self.grant_all(pre_vote=True)
        self.grant_all(pre_vote=False)
        assert self.machine.is_leader

    def grant_all(self, *, pre_vote: bool) -> None:
        for send, request in self.sent(messages.VoteRequest):
            assert request.pre_vote is pre_vote
            collected = self.respond(send, messages.VoteResponse(leader_epoch=request.replica_epoch, vote_granted=True))
            if self.machine.role_name != ("Prospective" if pre_vote else "Candidate"):
                self.effects = collected
                return

    def follow(self, leader_id: int = 2, epoch: int = 1) -> None:
        request = replace(begin_request(leader_id, epoch), voter=self.key)
        response = self.request(request, messages.BeginQuorumEpochResponse)
        assert not response.error
        assert self.machine.role_name == "Follower"


def batches(epochs: Sequence[int], first_offset: int = 0) -> list[Batch]:
    return [
        Batch(base_offset=offset, last_offset=offset, epoch=epoch, data=b"x")
        for offset, epoch in enumerate(epochs, first_offset)
    ]


def vote_request(
    *,
    candidate: int = 2,
    epoch: int = 1,
    end: tuple[int, int] = (0, 0),
    pre_vote: bool = False,
    voter: ReplicaKey | None = None,
    cluster_id: str | None = "cluster",
) -> messages.VoteRequest:
    return messages.VoteRequest(
        cluster_id=cluster_id,
        voter=voter or key_of(1),
        replica=key_of(candidate),
        replica_epoch=epoch,
        last_offset=end[0],
        last_offset_epoch=end[1],
        pre_vote=pre_vote,
    )


def begin_request(leader_id: int = 2, epoch: int = 1) -> messages.BeginQuorumEpochRequest:
    return messages.BeginQuorumEpochRequest(
        cluster_id="cluster",
        voter=key_of(1),
        leader_id=leader_id,
        leader_epoch=epoch,
        leader_endpoints=registration(leader_id, with_directory=True).endpoints,
    )


def end_request(
    candidates: Sequence[int] = (), *, leader_id: int = 2, epoch: int = 1
) -> messages.EndQuorumEpochRequest:
    return messages.EndQuorumEpochRequest(
        cluster_id="cluster",
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_candidates=tuple(key_of(node_id) for node_id in candidates),
        leader_endpoints=registration(leader_id, with_directory=True).endpoints,
    )


def fetch_request(
    *, replica: int = 2, epoch: int = 1, end: tuple[int, int] = (0, 0), high_watermark: int = 0, max_wait_ms: int = 500
) -> messages.FetchRequest:
    return messages.FetchRequest(
        cluster_id="cluster",
        replica=key_of(replica),
        current_leader_epoch=epoch,
        fetch_offset=end[0],
        last_fetched_epoch=end[1],
        high_watermark=high_watermark,
        max_bytes=1 << 20,
        max_wait_ms=max_wait_ms,
    )


def fetched(leader_id: int = 2, epoch: int = 1, **fields: Any) -> messages.FetchResponse:
    return replace(messages.FetchResponse(leader_id=leader_id, leader_epoch=epoch), **fields)
