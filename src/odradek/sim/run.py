"""One run: a cluster, its clients and faults, recovery, and the checkers."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from odradek.sim.checkers.access_model import Rules
from odradek.sim.checkers.committed_metadata import check_committed_metadata
from odradek.sim.checkers.coordinators import Coordinators
from odradek.sim.checkers.groups import check_groups
from odradek.sim.checkers.metadata import check_metadata
from odradek.sim.checkers.quorum import check_quorum
from odradek.sim.checkers.records import check_records
from odradek.sim.checkers.replicas import check_replicas
from odradek.sim.checkers.security import check_security
from odradek.sim.checkers.sent_records import check_sent_records
from odradek.sim.checkers.transactions import check_transactions
from odradek.sim.checkers.violation import Violation
from odradek.sim.cluster import Cluster
from odradek.sim.fault_injection import schedule
from odradek.sim.faults import Fault, draw
from odradek.sim.fetch_recorder import FetchRecorder
from odradek.sim.layout import plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.quorum_recorder import QuorumRecorder, settings_of
from odradek.sim.replica_recorder import ReplicaRecorder
from odradek.sim.scenarios import Scenario
from odradek.sim.scheduler import Livelock
from odradek.sim.security_recorder import SecurityRecorder
from odradek.sim.small_chunks import small_chunks
from odradek.sim.trace import Event
from odradek.sim.triggers import Triggers
from odradek.sim.workload import ADMIN_TOPICS, VERIFIER, Workload
from odradek.sim.world import World, simulated_world

LIVENESS: Final = "23 after the faults end, the cluster recovers"
UNEXPECTED: Final = "no unexpected errors"
_START_SECONDS_MAX: Final = 30.0
_RECOVERY_SECONDS_MAX: Final = 60.0
_AFTER_HEALING_SECONDS: Final = 1.0
_BETWEEN_COMPARISONS_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    seed: int
    scenario: str
    faults: tuple[Fault, ...]
    """All faults that were drawn, including those not injected."""
    violations: tuple[Violation, ...]
    trace_hash: str
    simulated_seconds: float
    events: tuple[Event, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.violations


def run_seed(
    seed: int, scenario: Scenario, *, only_faults: Collection[int] | None = None, keep_trace: bool = False
) -> Result:
    """`only_faults`: the indexes of the faults to inject; None: all."""
    with small_chunks(), simulated_world(seed, keep_trace=keep_trace) as world:
        # No reference to the run may remain here: its objects are collected when the world ends.
        return _run_in(world, scenario, only_faults)


def _run_in(world: World, scenario: Scenario, only_faults: Collection[int] | None) -> Result:
    run = _Run(world, scenario, only_faults)
    violations = run.violations()
    return Result(
        seed=world.seed,
        scenario=scenario.name,
        faults=tuple(run.faults),
        violations=tuple(violations),
        trace_hash=world.trace.hash(),
        simulated_seconds=world.now,
        events=tuple(world.trace.events or ()),
    )


class _Run:
    def __init__(self, world: World, scenario: Scenario, only_faults: Collection[int] | None) -> None:
        self._world: Final = world
        random = world.random("cluster")
        replicas_random = world.random("replicas")
        properties = {name: replicas_random.choice(values) for name, values in scenario.node_properties}
        plan = plan_nodes(scenario.layout, random, properties, is_secured=scenario.is_secured)
        self._nodes: Final = [NodeHost(world, planned) for planned in plan.nodes]
        self._fetches: Final = FetchRecorder(world, self._nodes)
        for node in self._nodes:
            node.format(plan.initial_controllers)
        configs = {
            "internal.segment.bytes": random.choice(("10000", "50000", "1000000")),
            "index.interval.bytes": random.choice(("0", "500", "4096")),
            **dict(scenario.topic_configs),
        }
        replication_factor = 1
        if scenario.replication:
            replication_factor, min_isr = replicas_random.choice(scenario.replication)
            configs["min.insync.replicas"] = str(min_isr)
        log_dirs = {
            (node.planned.host, node.planned.client_port): node.config.log_dirs
            for node in self._nodes
            if node.planned.is_broker
        }
        self.workload: Final = Workload(
            world,
            plan,
            configs,
            log_dirs,
            replication_factor,
            has_records=scenario.has_records,
            has_transactions=scenario.has_transactions,
            admin_seconds=scenario.admin_seconds,
            changes_voters=scenario.changes_voters,
            has_groups=scenario.has_groups,
            has_slow_readers=scenario.has_slow_readers,
            is_secured=scenario.is_secured,
        )
        if scenario.is_secured:
            SecurityRecorder(self._nodes, self.workload.history.security)
        triggers = Triggers()
        self._quorum_recorder: Final = QuorumRecorder(world, self._nodes, self.workload.history, triggers)
        self._replicas: Final = (
            ReplicaRecorder(
                world,
                self._nodes,
                self.workload.partitions,
                is_synced=configs.get("flush.messages") == "1",
                triggers=triggers,
            )
            if self.workload.is_replicated
            else None
        )
        if self._replicas is not None:
            self.workload.history.on_acknowledged = self._replicas.on_acknowledged
        faults_random = world.random("faults")
        self.faults: Final = draw(
            faults_random,
            scenario.fault_kinds,
            nodes=[node.name for node in self._nodes],
            clients=self.workload.clients,
            seconds=scenario.fault_seconds,
            mean_seconds=scenario.fault_mean_seconds,
            count=faults_random.randrange(scenario.faults_min, scenario.faults_max + 1),
            leader_share=scenario.leader_share,
        )
        self._faults_to_inject: Final = [
            fault for place, fault in enumerate(self.faults) if only_faults is None or place in only_faults
        ]
        self._scenario: Final = scenario
        self._cluster: Final = Cluster(world, self._nodes, self.workload.history.quorum, triggers)
        self._cluster.replicas = self._replicas
        if scenario.has_firewall:
            self._cluster.reject_probes()
        if self._replicas is not None and scenario.keeps_eligible_replica:
            self._cluster.may_crash = self._replicas.may_crash
        self._ends_with_restart: Final = random.random() < 0.3
        self._is_verified = False

    def violations(self) -> list[Violation]:
        try:
            stuck = self._play()
        except Livelock as livelock:
            stuck = [Violation(LIVENESS, str(livelock), self._world.now)]
        found = [
            *check_records(
                self.workload.history,
                VERIFIER if self._is_verified else None,
                is_replicated=self.workload.is_replicated,
            )
        ]
        if self._replicas is not None:
            found += check_replicas(self._replicas.history, self.workload.history)
        self._fetches.finish()
        found += check_sent_records(self._fetches.history)
        found += check_transactions(self.workload.transactions, VERIFIER if self._is_verified else None)
        found += check_metadata(self.workload.history)
        settings = settings_of(self._nodes)
        metadata = () if self._replicas is None else self._replicas.history.metadata
        coordinators = Coordinators(metadata, self.workload.history.quorum.committed, settings.node_ids)
        found += check_groups(self.workload.history.groups, coordinators)
        found += check_quorum(
            self.workload.history.quorum, settings, ended_seconds=self._world.now, is_whole=self._is_verified
        )
        if self._scenario.is_secured:
            found += check_security(self.workload.history.security, self.workload.history.quorum, self._rules())
        if self._is_verified and len(settings.voters) > 1:
            found += check_committed_metadata(self.workload.history)
        found += stuck
        found += [Violation(UNEXPECTED, f"{name}: {what}", self._world.now) for name, what in self._world.unexpected]
        return found

    def _rules(self) -> Rules:
        config = self._nodes[0].config
        users = frozenset(name.removeprefix("User:") for name in config.super_users)
        return Rules(users, config.allow_everyone_if_no_acl_found)

    def _play(self) -> list[Violation]:
        """Returns the steps that did not complete."""
        world, workload = self._world, self.workload
        for node in self._nodes:
            node.start()
        workload.create_topics()
        if not world.run_for(_START_SECONDS_MAX, lambda: workload.is_finished):
            return [self._liveness_violation("the cluster does not start")]
        workload.begin()
        if self._replicas is not None:
            self._replicas.record_periodically()
        schedule(self._faults_to_inject, self._cluster)
        world.run_for(self._scenario.fault_seconds)
        world.trace.major("fault", "all faults end")
        self._cluster.heal()
        world.run_for(_AFTER_HEALING_SECONDS)
        workload.finish()
        if not world.run_for(_RECOVERY_SECONDS_MAX, lambda: workload.is_finished):
            return [self._liveness_violation(f"still waiting: {', '.join(workload.unfinished)}")]
        stuck = []
        if not world.run_for(_RECOVERY_SECONDS_MAX, lambda: not workload.behind):
            stuck.append(self._liveness_violation(f"readers are behind: {', '.join(workload.behind)}"))
        if self._ends_with_restart:
            for node in self._nodes:
                node.stop()
                if not world.run_for(_RECOVERY_SECONDS_MAX, lambda node=node: not node.computer.is_running):  # type: ignore[misc]
                    return [self._liveness_violation(f"{node.name} does not stop")]
                node.start()
        workload.inspect()
        if not world.run_for(_RECOVERY_SECONDS_MAX, lambda: workload.is_finished):
            return [*stuck, self._liveness_violation(f"the cluster does not become healthy: {workload.problem}")]
        workload.verify()
        if not world.run_for(_RECOVERY_SECONDS_MAX, lambda: workload.is_finished):
            return [*stuck, self._liveness_violation("some records cannot be read")]
        self._quorum_recorder.record_all(ADMIN_TOPICS)
        self._is_verified = True
        return [*stuck, *self._compare_copies()]

    def _compare_copies(self) -> list[Violation]:
        replicas = self._replicas
        if replicas is None:
            return []
        deadline = self._world.now + _RECOVERY_SECONDS_MAX
        starts = self.workload.history.may_be_deleted
        while (difference := replicas.find_difference(starts)) is not None and self._world.now < deadline:
            # Reading all replicas after every step would take longer than the rest of the run.
            self._world.run_for(_BETWEEN_COMPARISONS_SECONDS)
        replicas.record_all()
        replicas.record_metadata()
        return [] if difference is None else [self._liveness_violation(f"replicas differ: {difference}")]

    def _liveness_violation(self, what: str) -> Violation:
        return Violation(LIVENESS, what, self._world.now)
