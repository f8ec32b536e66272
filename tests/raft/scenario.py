"""One seed: a quorum, a few seconds of faults, then recovery, and a check that the quorum makes progress.

Synced bytes always survive, and every fault is healed before progress is checked.
"""

from dataclasses import replace
from functools import partial
from random import Random

from odradek.core.raft import events, messages
from tests.raft.checker import Violation
from tests.raft.world import SETTINGS, Host, Network, World, key_of, registration

FAULTS_MS = 5_000
HEALING_MS = 6_000


class Scenario:
    def __init__(self, seed: int, *, host_type: type[Host] = Host) -> None:
        self.random = random = Random(seed)
        self.upgrades_kraft_version = random.random() < 0.3
        """Whether the quorum upgrades from static voters to voters in the log."""
        self.world = World(
            seed,
            voters=random.choice((1, 2, 3, 3, 3, 3, 4, 5)),
            observers=random.choice((0, 0, 1, 2)),
            kraft_version=1 if random.random() < 0.4 else 0,
            settings=replace(
                SETTINGS,
                # Short timeouts make candidates compete.
                election_timeout_ms=random.choice((30, 200)),
                fast_detection=random.random() < 0.5,
                auto_join=random.random() < 0.3,
            ),
            host_type=host_type,
        )
        self.world.network = Network(
            slow_rate=random.choice((0.0, 0.05, 0.2)),
            loss_rate=random.choice((0.0, 0.02, 0.1)),
            duplicate_rate=random.choice((0.0, 0.05, 0.2)),
        )
        self._offered = 0
        if random.random() < 0.4:
            self.world.on_vote_granted = self._crash_voter

    def run(self) -> None:
        world = self.world
        world.start_all()
        self._keep_offering()
        at_ms = 0
        gap_max_ms = self.random.choice((150, 400, 900))
        while at_ms < FAULTS_MS:
            at_ms += self.random.randrange(1, gap_max_ms)
            world.after(at_ms, self._inject_fault)
        world.run(FAULTS_MS)
        self._heal()
        before = world.checker.committed_end
        if not world.run(FAULTS_MS + HEALING_MS, lambda: self._has_recovered(before)):
            state = {one.node_id: (one.machine and one.machine.role_name, one.applied_offset) for one in self._hosts()}
            raise Violation("progress after the faults heal", f"beyond {before}: {state}")

    def _hosts(self) -> list[Host]:
        return list(self.world.hosts.values())

    def _has_recovered(self, before: int) -> bool:
        """New records are committed and applied on all nodes."""
        end = min(host.applied_offset for host in self._hosts())
        return end > before + 5 and self.world.leader() is not None

    def _keep_offering(self) -> None:
        for host in self._hosts():
            if host.is_running and host.leading_epoch is not None:
                self._offered += 1
                data = f"record {self._offered}".encode()
                host.step(events.AppendRequested(host.leading_epoch, self.random.randrange(1, 4), data))
        self.world.after(self.random.randrange(10, 100), self._keep_offering)

    # Faults

    def _inject_fault(self) -> None:
        action = self.random.choice(
            (
                self._crash_one,
                self._crash_one,
                self._crash_leader,
                self._crash_leader,
                self._crash_all,
                self._isolate,
                self._isolate,
                self._isolate_one_way,
                self._split,
                self._slow_disk,
                self._pause,
                self._snapshot,
                self._snapshot,
                self._resign,
                self._stop,
                self._refuse,
                self._change_voters,
                self._change_voters,
            )
        )
        action()

    def _target(self) -> int:
        leader = self.world.leader()
        if leader is not None and self.random.random() < 0.4:
            return leader.node_id
        return self.random.choice(list(self.world.hosts))

    def _crash(self, node_id: int) -> None:
        self.world.crash(node_id, loses_power=self.random.random() < 0.6)
        delay_ms = self.random.choice((5, 50, 300, 1200))
        self.world.after(self.random.randrange(1, delay_ms), lambda: self._start(node_id))

    def _crash_voter(self, voter: int, request: messages.Request | None) -> None:
        """Crashes a voter right after it sent its vote, to check that it remembers the vote."""
        is_binding = isinstance(request, messages.VoteRequest) and not request.pre_vote
        if is_binding and self.world.now_ms < FAULTS_MS and self.random.random() < 0.5:
            self.world.after(0, lambda: self.world.crash(voter, loses_power=True))
            self.world.after(self.random.randrange(1, 20), lambda: self._start(voter))

    def _start(self, node_id: int) -> None:
        if not self.world.hosts[node_id].is_running:
            self.world.start(node_id)

    def _crash_one(self) -> None:
        self._crash(self._target())

    def _crash_leader(self) -> None:
        leader = self.world.leader()
        if leader is not None:
            self._crash(leader.node_id)

    def _crash_all(self) -> None:
        for node_id in self.world.hosts:
            self._crash(node_id)

    def _drop_messages(self, pairs: set[tuple[int, int]]) -> None:
        self.world.network.dropped_pairs |= pairs
        self.world.after(self.random.randrange(50, 1500), lambda: self._restore_network(pairs))

    def _restore_network(self, pairs: set[tuple[int, int]]) -> None:
        self.world.network.dropped_pairs -= pairs
        for source, destination in sorted(pairs):
            self.world.connect(source, destination)

    def _isolate(self) -> None:
        node_id = self._target()
        others = [other for other in self.world.hosts if other != node_id]
        self._drop_messages({(node_id, other) for other in others} | {(other, node_id) for other in others})

    def _isolate_one_way(self) -> None:
        node_id = self._target()
        others = [other for other in self.world.hosts if other != node_id]
        is_outward = self.random.random() < 0.5
        self._drop_messages({(node_id, other) if is_outward else (other, node_id) for other in others})

    def _split(self) -> None:
        side = {node_id for node_id in self.world.hosts if self.random.random() < 0.5}
        rest = set(self.world.hosts) - side
        self._drop_messages(
            {(one, other) for one in side for other in rest} | {(other, one) for one in side for other in rest}
        )

    def _slow_disk(self) -> None:
        host = self.world.hosts[self._target()]
        host.sync_delay_max_ms = self.random.choice((50, 300))
        self.world.after(self.random.randrange(100, 1000), lambda: setattr(host, "sync_delay_max_ms", 6))

    def _pause(self) -> None:
        """Pauses a process, which does not notice this afterwards."""
        host = self.world.hosts[self._target()]
        self.world.pause(host.node_id, self.random.choice((100, 700, 1500)))

    def _snapshot(self) -> None:
        host = self.world.hosts[self._target()]
        if host.is_running and host.paused_until_ms <= self.world.now_ms:
            host.take_snapshot()
            if self.random.random() < 0.7:
                host.clean()

    def _resign(self) -> None:
        leader = self.world.leader()
        if leader is not None and leader.leading_epoch is not None:
            leader.step(events.ResignRequested(leader.leading_epoch))

    def _stop(self) -> None:
        """Stops a node cleanly, if that completes in time."""
        node_id = self._target()
        host = self.world.hosts[node_id]
        if host.is_running:
            self.world.note(f"node {node_id} begins a clean shutdown")
            host.step(events.StopRequested())
            self.world.after(600, partial(self._kill_unless_restarted, host, host.life))
            self.world.after(self.random.randrange(600, 1500), lambda: self._start(node_id))

    def _kill_unless_restarted(self, host: Host, life: int) -> None:
        if host.life == life:
            self.world.crash(host.node_id)

    def _refuse(self) -> None:
        """Makes a live process's port refuse connections, as a firewall does."""
        leader = self.world.leader()
        other = self._target()
        if leader is not None and leader.node_id != other:
            self.world.refuse(other, leader.node_id)
            self.world.after(self.random.randrange(20, 500), lambda: self.world.connect(other, leader.node_id))

    def _change_voters(self) -> None:
        leader = self.world.leader()
        if leader is None or leader.machine is None or leader.leading_epoch is None:
            return
        if leader.machine.quorum.kraft_version == 0:
            if self.upgrades_kraft_version:
                leader.step(events.KRaftVersionRequested(leader.leading_epoch, 1))
            return
        voter_ids = {voter.voter_id for voter in leader.machine.quorum.voters}
        node_id = self.random.choice(list(self.world.hosts))
        key = key_of(node_id)
        if node_id in voter_ids:
            self.world.request_as_admin(
                leader.node_id, messages.RemoveRaftVoterRequest(cluster_id="cluster", voter=key)
            )
        else:
            endpoints = registration(node_id, with_directory=True).endpoints
            request = messages.AddRaftVoterRequest(cluster_id="cluster", voter=key, endpoints=endpoints)
            self.world.request_as_admin(leader.node_id, request)

    def _heal(self) -> None:
        world = self.world
        world.note("healing")
        world.network = Network()
        for host in self._hosts():
            host.sync_delay_max_ms = 6
        world.start_all()
        for source in world.hosts:
            for destination in world.hosts:
                if source != destination:
                    world.connect(source, destination)
