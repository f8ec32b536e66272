"""Typical situations of a quorum, each recorded as text in `tests/golden/raft`.

Every message and every disk write takes one millisecond, so that a change of behaviour shows as a diff of these files.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from odradek.core.raft import events, messages
from odradek.core.raft.roles import TRANSITIONS
from tests.raft.timeline import Timeline
from tests.raft.world import SETTINGS, Host, World, key_of, registration

GOLDEN = Path(__file__).parent.parent / "golden" / "raft"


class Recording:
    def __init__(
        self, *, voters: int = 3, observers: int = 0, kraft_version: int = 0, fast_detection: bool = False
    ) -> None:
        settings = replace(SETTINGS, fast_detection=fast_detection)
        self.world = World(1, voters=voters, observers=observers, kraft_version=kraft_version, settings=settings)
        self.world.network.delay_max_ms = 1
        for host in self.world.hosts.values():
            host.sync_delay_max_ms = 1
        self.timeline = Timeline()

    def begin(self) -> Host:
        """Starts the timeline when all nodes know the leader."""
        self.world.start_all()
        leader = self.wait_for_leader()
        self.world.watchers.append(self.timeline)
        self.world.note(f"node {leader.node_id} leads epoch {leader.leading_epoch}")
        return leader

    def wait(self, ms: int) -> None:
        self.world.run(self.world.now_ms + ms)

    def wait_for_leader(self, other_than: int = 0) -> Host:
        def is_there() -> bool:
            host = self.world.leader()
            return host is not None and host.node_id != other_than and host.applied_offset > 0

        assert self.world.run(self.world.now_ms + 5_000, is_there)
        self.wait(10)
        leader = self.world.leader()
        assert leader is not None
        return leader

    def append(self, host: Host, text: str, count: int = 1) -> None:
        assert host.leading_epoch is not None
        host.step(events.AppendRequested(host.leading_epoch, count, text.encode()))
        self.wait(10)

    def isolate(self, node_id: int) -> None:
        self.world.note(f"node {node_id} is isolated")
        others = [other for other in self.world.hosts if other != node_id]
        self.world.network.dropped_pairs = {(node_id, other) for other in others} | {
            (other, node_id) for other in others
        }

    def restore_network(self) -> None:
        self.world.note("the network is restored")
        self.world.network.dropped_pairs = set()


def first_election() -> Recording:
    recording = Recording()
    recording.world.watchers.append(recording.timeline)
    recording.world.start_all()
    recording.append(recording.wait_for_leader(), "a topic", 3)
    return recording


def leader_killed() -> Recording:
    """Its port refuses connections at once, so no voter waits for a timeout."""
    recording = Recording(fast_detection=True)
    leader = recording.begin()
    recording.world.crash(leader.node_id)
    recording.wait_for_leader(leader.node_id)
    recording.wait(50)
    recording.world.start(leader.node_id)
    recording.wait(50)
    return recording


def leader_loses_power() -> Recording:
    """An unresponsive leader may be alive, so voters wait for the fetch timeout."""
    recording = Recording()
    leader = recording.begin()
    recording.world.crash(leader.node_id, loses_power=True)
    recording.wait_for_leader(leader.node_id)
    return recording


def leader_shuts_down_cleanly() -> Recording:
    recording = Recording()
    leader = recording.begin()
    recording.world.note(f"node {leader.node_id} begins a clean shutdown")
    leader.step(events.StopRequested())
    recording.wait_for_leader(leader.node_id)
    return recording


def diverging_log_is_truncated() -> Recording:
    """Records that an isolated leader wrote are replaced by the records committed meanwhile."""
    recording = Recording()
    leader = recording.begin()
    recording.append(leader, "kept")
    recording.isolate(leader.node_id)
    recording.append(leader, "never committed", 2)
    successor = recording.wait_for_leader(leader.node_id)
    recording.append(successor, "committed")
    recording.restore_network()
    recording.wait(500)
    return recording


def isolated_follower_returns() -> Recording:
    """It has requested pre-votes meanwhile. No voter grants one while the leader is responsive; the epoch stays."""
    recording = Recording()
    leader = recording.begin()
    follower = next(one for one in recording.world.hosts if one != leader.node_id)
    recording.isolate(follower)
    recording.wait(700)
    recording.append(leader, "without the third")
    recording.restore_network()
    recording.wait(500)
    return recording


def snapshot_in_pieces() -> Recording:
    recording = Recording(voters=1, observers=1)
    recording.world.start(1)
    leader = recording.wait_for_leader()
    recording.world.watchers.append(recording.timeline)
    recording.append(leader, "a", 10)
    recording.append(leader, "b", 10)
    leader.take_snapshot()
    leader.clean()
    recording.append(leader, "c")
    recording.world.start(2)
    recording.wait(300)
    return recording


def voters_change() -> Recording:
    """A third voter is added, then the leader itself is removed. It leads until its removal is committed."""
    recording = Recording(voters=2, observers=1, kraft_version=1)
    leader = recording.begin()
    recording.wait(20)
    endpoints = registration(3, with_directory=True).endpoints
    recording.world.request_as_admin(
        leader.node_id, messages.AddRaftVoterRequest(cluster_id="cluster", voter=key_of(3), endpoints=endpoints)
    )
    recording.wait(30)
    key = key_of(leader.node_id)
    recording.world.request_as_admin(leader.node_id, messages.RemoveRaftVoterRequest(cluster_id="cluster", voter=key))
    recording.wait_for_leader(leader.node_id)
    return recording


RECORDINGS: tuple[Callable[[], Recording], ...] = (
    first_election,
    leader_killed,
    leader_loses_power,
    leader_shuts_down_cleanly,
    diverging_log_is_truncated,
    isolated_follower_returns,
    snapshot_in_pieces,
    voters_change,
)


def transcript(recording: Callable[[], Recording]) -> str:
    title = recording.__name__.replace("_", " ").capitalize()
    about = f"{title}. {recording.__doc__}" if recording.__doc__ else f"{title}."
    return "\n".join([f"# {about}", *recording().timeline.lines]) + "\n"


def table_of_roles() -> str:
    """Every transition in the state machine's table."""
    lines = ["# Roles and their transitions. An observer is only ever Unattached or Follower."]
    for source, targets in TRANSITIONS.items():
        lines.append(f"{source.__name__}")
        lines += [f"    -> {target.__name__:<12} {reason}" for target, reason in targets.items()]
    return "\n".join(lines) + "\n"


def record() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / "roles.txt").write_text(table_of_roles())
    for recording in RECORDINGS:
        (GOLDEN / f"{recording.__name__}.txt").write_text(transcript(recording))
