"""Classic situations of a quorum, each played once and kept as text in `tests/golden/raft`.

Messages take one millisecond and so do disks, so that a change of behaviour is a change of lines, reviewed as a diff.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from odradek.core.raft import events, messages
from odradek.core.raft.roles import TRANSITIONS
from tests.raft.timeline import Timeline
from tests.raft.world import SETTINGS, Host, World, key_of, registration

GOLDEN = Path(__file__).parent.parent / "golden" / "raft"


class Play:
    def __init__(self, *, voters: int = 3, observers: int = 0, kraft_version: int = 0, is_fast: bool = False) -> None:
        settings = replace(SETTINGS, fast_detection=is_fast)
        self.world = World(1, voters=voters, observers=observers, kraft_version=kraft_version, settings=settings)
        self.world.network.delay_max_ms = 1
        for host in self.world.hosts.values():
            host.sync_delay_max_ms = 1
        self.timeline = Timeline()

    def begin(self) -> Host:
        """The timeline starts when there is a leader that all know."""
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

    def offer(self, host: Host, text: str, count: int = 1) -> None:
        assert host.leading_epoch is not None
        host.hear(events.RecordsOffered(host.leading_epoch, count, text.encode()))
        self.wait(10)

    def isolate(self, node_id: int) -> None:
        self.world.note(f"node {node_id} is cut off")
        others = [other for other in self.world.hosts if other != node_id]
        self.world.network.cut = {(node_id, other) for other in others} | {(other, node_id) for other in others}

    def mend(self) -> None:
        self.world.note("the network is whole again")
        self.world.network.cut = set()


def first_election() -> Play:
    play = Play()
    play.world.watchers.append(play.timeline)
    play.world.start_all()
    play.offer(play.wait_for_leader(), "a topic", 3)
    return play


def leader_killed() -> Play:
    """Its port refuses at once: nobody waits for a timeout."""
    play = Play(is_fast=True)
    leader = play.begin()
    play.world.crash(leader.node_id)
    play.wait_for_leader(leader.node_id)
    play.wait(50)
    play.world.start(leader.node_id)
    play.wait(50)
    return play


def leader_loses_power() -> Play:
    """Silence proves nothing: the fetch timeout is waited for."""
    play = Play()
    leader = play.begin()
    play.world.crash(leader.node_id, loses_power=True)
    play.wait_for_leader(leader.node_id)
    return play


def leader_stops_in_good_order() -> Play:
    play = Play()
    leader = play.begin()
    play.world.note(f"node {leader.node_id} is asked to stop")
    leader.hear(events.StopRequested())
    play.wait_for_leader(leader.node_id)
    return play


def diverging_log_is_cut() -> Play:
    """What a leader wrote when nobody followed it any more gives way to what was committed meanwhile."""
    play = Play()
    leader = play.begin()
    play.offer(leader, "kept")
    play.isolate(leader.node_id)
    play.offer(leader, "never committed", 2)
    successor = play.wait_for_leader(leader.node_id)
    play.offer(successor, "committed")
    play.mend()
    play.wait(500)
    return play


def cut_off_follower_returns() -> Play:
    """It has asked for pre-votes all the while. Nobody grants one beside a leader that answers; the epoch stays."""
    play = Play()
    leader = play.begin()
    follower = next(one for one in play.world.hosts if one != leader.node_id)
    play.isolate(follower)
    play.wait(700)
    play.offer(leader, "without the third")
    play.mend()
    play.wait(500)
    return play


def snapshot_in_pieces() -> Play:
    play = Play(voters=1, observers=1)
    play.world.start(1)
    leader = play.wait_for_leader()
    play.world.watchers.append(play.timeline)
    play.offer(leader, "a", 10)
    play.offer(leader, "b", 10)
    leader.take_snapshot()
    leader.clean()
    play.offer(leader, "c")
    play.world.start(2)
    play.wait(300)
    return play


def voters_change() -> Play:
    """A third voter is added, then the leader itself is removed: it leads until that is committed."""
    play = Play(voters=2, observers=1, kraft_version=1)
    leader = play.begin()
    play.wait(20)
    endpoints = registration(3, with_directory=True).endpoints
    play.world.ask(
        leader.node_id, messages.AddRaftVoterRequest(cluster_id="cluster", voter=key_of(3), endpoints=endpoints)
    )
    play.wait(30)
    key = key_of(leader.node_id)
    play.world.ask(leader.node_id, messages.RemoveRaftVoterRequest(cluster_id="cluster", voter=key))
    play.wait_for_leader(leader.node_id)
    return play


PLAYS: tuple[Callable[[], Play], ...] = (
    first_election,
    leader_killed,
    leader_loses_power,
    leader_stops_in_good_order,
    diverging_log_is_cut,
    cut_off_follower_returns,
    snapshot_in_pieces,
    voters_change,
)


def transcript(play: Callable[[], Play]) -> str:
    title = play.__name__.replace("_", " ").capitalize()
    about = f"{title}. {play.__doc__}" if play.__doc__ else f"{title}."
    return "\n".join([f"# {about}", *play().timeline.lines]) + "\n"


def table_of_roles() -> str:
    """Every transition there is, as the machine's own table has it."""
    lines = ["# Roles, and what leads from one to another. An observer is only ever Unattached or Follower."]
    for source, targets in TRANSITIONS.items():
        lines.append(f"{source.__name__}")
        lines += [f"    -> {target.__name__:<12} {reason}" for target, reason in targets.items()]
    return "\n".join(lines) + "\n"


def record() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / "roles.txt").write_text(table_of_roles())
    for play in PLAYS:
        (GOLDEN / f"{play.__name__}.txt").write_text(transcript(play))
