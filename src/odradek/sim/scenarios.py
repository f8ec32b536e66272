"""Scenarios: which faults are injected, and which guarantee must hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odradek.sim.layout import (
    ONE_NODE,
    THREE_COMBINED,
    THREE_COMBINED_ONE_BROKER,
    THREE_CONTROLLERS_THREE_BROKERS,
    THREE_CONTROLLERS_THREE_HOSTS,
    THREE_CONTROLLERS_TWO_BROKERS,
    Layout,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    promise: str
    fault_kinds: Sequence[str]
    """Drawn uniformly; a kind listed twice is twice as likely."""
    layout: Layout = ONE_NODE
    topic_configs: tuple[tuple[str, str], ...] = ()
    fault_seconds: float = 8.0
    fault_mean_seconds: float = 0.8
    """The mean duration of faults that have one."""
    faults_min: int = 0
    faults_max: int = 8
    leader_share: float = 0.0
    """The share of faults that affect the current leader of the quorum."""
    has_records: bool = True
    """Whether producers and consumers run; otherwise only admin clients do."""
    admin_seconds: Sequence[float] = (0.2, 1.0)
    """The interval between two changes of an admin client, drawn from these."""
    changes_voters: bool = False
    """Whether voters are removed and added, if the quorum is dynamic."""
    replication: Sequence[tuple[int, int]] = ()
    """(replication factor, min.insync.replicas), of which one is drawn. Empty: topics have one replica."""
    node_properties: Sequence[tuple[str, Sequence[str]]] = ()
    """Node configs and the values to draw from."""
    has_transactions: bool = False
    """Whether transactional producers and read_committed consumers run."""
    has_groups: bool = False
    """Whether consumer groups run."""
    is_secured: bool = False
    """Whether nodes and clients log in with SASL, ACLs apply, and clients of several users run."""
    has_firewall: bool = False
    """Whether a firewall rejects the connections of all controllers to the port of one broker."""
    has_slow_readers: bool = False
    """Whether hosts take the bytes of responses late."""
    keeps_eligible_replica: bool = False
    """Whether a node crashes only while another live replica has all committed records."""


_NETWORK: Final = ("block", "block-back", "reset", "reset", "delay")
_PROCESS: Final = (
    "crash-at-step",
    "crash-at-step",
    "crash-at-disk",
    "crash-at-disk",
    "crash-at-sync",
    "restart",
    "pause",
)

PROCESS_CRASHES: Final = Scenario(
    name="process-crashes",
    promise="A: processes crash; the page cache survives",
    fault_kinds=(*_PROCESS, *_NETWORK, "clock-jump", "slow-disk", "full-disk", "failing-disk"),
)
POWER_LOSS: Final = Scenario(
    name="power-loss",
    promise="C: power loss, for topics with flush.messages=1",
    # Without failing fsyncs: nothing is guaranteed about such a disk after a later power loss.
    fault_kinds=(
        *("power-loss-at-step", "power-loss-at-disk", "power-loss-at-disk", "power-loss-at-sync", "power-loss-at-sync"),
        *("crash-at-step", "crash-at-disk", "crash-at-sync", "restart", "reset", "block", "delay", "slow-disk"),
    ),
    topic_configs=(("flush.messages", "1"),),
)
# Between nodes, and between nodes and clients; longer than elections and session timeouts.
_PARTITIONS: Final = (
    "isolated",
    "isolated",
    "inbound-blocked",
    "outbound-blocked",
    "bridge",
    "flapping",
    "block",
    "block-back",
    "reset",
    "delay",
)
_POWER: Final = ("power-loss-at-step", "power-loss-at-disk", "power-loss-at-sync", "power-loss-at-sync")

THREE_NODES: Final = Scenario(
    name="three-nodes",
    promise="19 and 23: three combined nodes with power loss, network faults and crashes",
    layout=THREE_COMBINED,
    fault_kinds=(
        *(*_PARTITIONS, *_POWER, *_PROCESS, "slow-disk", "clock-jump", "stalled"),
        *("shortened-log", "flipped-bit"),
    ),
    topic_configs=(("flush.messages", "1"),),
    fault_seconds=15.0,
    fault_mean_seconds=2.0,
    faults_max=10,
)
FIVE_NODES: Final = replace(
    THREE_NODES,
    name="five-nodes",
    promise="19 and 23: three controllers and two brokers, as three-nodes",
    layout=THREE_CONTROLLERS_TWO_BROKERS,
    faults_max=12,
)
ELECTIONS: Final = Scenario(
    name="elections",
    promise="19 and 23: three voters under constant metadata changes; faults mostly affect the leader",
    layout=THREE_COMBINED,
    fault_kinds=(
        *("isolated", "isolated", "isolated-at-append", "isolated-at-append"),
        *("isolated-and-reset", "isolated-and-reset", "isolated-and-reset"),
        *("inbound-blocked", "outbound-blocked", "bridge", "leader-unreachable", "leader-unreachable"),
        *("flapping", "block", "delay", "reset", "stalled", "stalled-restart", "stalled-restart"),
        *("pause", "paused-and-reset", "paused-and-reset", "restart", "slow-disk"),
        *("crash-at-step", "crash-at-step", "crash-at-append", "power-loss-at-append", "power-loss-at-sync"),
        *("crash-at-vote", "crash-at-vote", "crash-at-vote", "power-loss-at-vote"),
        *("crash-at-lead", "power-loss-at-lead", "shortened-log", "flipped-bit"),
    ),
    fault_seconds=10.0,
    fault_mean_seconds=2.0,
    faults_min=3,
    faults_max=12,
    leader_share=0.4,
    has_records=False,
    admin_seconds=(0.1, 0.3, 2.0),
    node_properties=(
        ("broker.session.timeout.ms", ("1500", "2000")),
        ("broker.heartbeat.interval.ms", ("200",)),
        ("metadata.max.idle.interval.ms", ("500", "3000")),
        ("broker.disconnect.grace.ms", ("0", "300", "300", "300")),
        ("controller.quorum.election.timeout.ms", ("200", "400")),
        ("controller.quorum.fetch.timeout.ms", ("500", "1000")),
        ("metadata.log.max.record.bytes.between.snapshots", ("1000", "10000", "100000000")),
    ),
)
VOTERS_CHANGE: Final = replace(
    ELECTIONS,
    name="voters-change",
    promise="19 and 23: as elections, while voters are removed and added",
    changes_voters=True,
)
# Timeouts so short that a fault of a second or two has consequences; the checkers need the whole metadata log.
_REPLICA_PROPERTIES: Final = (
    ("broker.session.timeout.ms", ("1000", "2000")),
    ("broker.heartbeat.interval.ms", ("200", "500")),
    ("broker.disconnect.grace.ms", ("0", "300")),
    ("replica.lag.time.max.ms", ("300", "1000", "3000")),
    ("replica.fetch.wait.max.ms", ("50", "500")),
    ("replica.fetch.max.bytes", ("1000", "1048576")),
    ("replica.high.watermark.checkpoint.interval.ms", ("200", "1000", "5000")),
    ("auto.leader.rebalance.enable", ("true", "false")),
    ("leader.imbalance.check.interval.seconds", ("1",)),
    ("metadata.log.max.record.bytes.between.snapshots", ("100000000",)),
)
REPLICAS_CRASH: Final = Scenario(
    name="replicas-crash",
    promise="A: any number of three brokers crash during reassignments; the page cache survives",
    layout=THREE_COMBINED,
    fault_kinds=(*_PARTITIONS, *_PROCESS, *_PROCESS, "restart-in-turn", "slow-disk", "full-disk", "failing-disk"),
    replication=((3, 2), (3, 2), (2, 2), (2, 1)),
    node_properties=_REPLICA_PROPERTIES,
    fault_seconds=8.0,
    fault_mean_seconds=1.5,
    faults_max=10,
)
REPLICAS_POWER_LOSS: Final = replace(
    REPLICAS_CRASH,
    name="replicas-power-loss",
    promise="B: fewer of four brokers than min.insync.replicas lose power during reassignments",
    layout=THREE_COMBINED_ONE_BROKER,
    fault_kinds=(*_PARTITIONS, *_POWER, *_POWER, *_PROCESS, "restart-in-turn", "slow-disk"),
    replication=((3, 2), (3, 2), (2, 2)),
    keeps_eligible_replica=True,
)
REPLICAS_FLUSHED: Final = replace(
    REPLICAS_CRASH,
    name="replicas-flushed",
    promise="C: any of three brokers lose power, for topics with flush.messages=1",
    fault_kinds=REPLICAS_POWER_LOSS.fault_kinds,
    topic_configs=(("flush.messages", "1"),),
)
REPLICAS_APART: Final = replace(
    REPLICAS_CRASH,
    name="replicas-apart",
    promise="A: as replicas-crash, with three brokers and three separate controllers",
    layout=THREE_CONTROLLERS_THREE_BROKERS,
    replication=((3, 2), (2, 2), (2, 2), (3, 3), (2, 1)),
)
# All faults are much shorter than the session: a running broker must never be fenced or replaced.
RUNNING_BROKERS: Final = replace(
    REPLICAS_APART,
    name="running-brokers",
    promise="no running broker is replaced by a copy of its disk, or fenced because a firewall rejects probes",
    fault_kinds=(
        *("cloned",) * 6,
        *("paused-and-reset",) * 6,
        *("reset", "reset", "crash-at-step", "crash-at-step", "restart"),
    ),
    has_firewall=True,
    replication=((3, 2),),
    node_properties=tuple(
        (name, {"broker.session.timeout.ms": ("9000",), "broker.disconnect.grace.ms": ("300",)}.get(name, values))
        for name, values in _REPLICA_PROPERTIES
    ),
    fault_mean_seconds=0.8,
    faults_min=6,
    faults_max=14,
)
# No other faults: these could delay the detection.
HOSTS: Final = replace(
    REPLICAS_APART,
    name="hosts",
    promise="23: hosts die with all their brokers, of which one has more than the others together",
    layout=THREE_CONTROLLERS_THREE_HOSTS,
    fault_kinds=("host-crash",),
    replication=((3, 2), (2, 1)),
    node_properties=RUNNING_BROKERS.node_properties,
    faults_min=1,
    faults_max=2,
)
REPLICAS_DEPOSED: Final = replace(
    REPLICAS_APART,
    name="replicas-deposed",
    promise="A: as replicas-apart; reachable leaders are replaced, or crash before their high watermark is known",
    fault_kinds=(
        *("deposed", "deposed", "deposed", "crash-after-shrink", "crash-after-shrink", "crash-after-shrink"),
        *("crash-at-step", "crash-at-disk", "isolated", "flapping", "pause", "delay"),
    ),
    replication=((3, 2),),
    node_properties=tuple(
        (name, ("300", "1000") if name == "replica.lag.time.max.ms" else values) for name, values in _REPLICA_PROPERTIES
    ),
    fault_seconds=10.0,
    faults_min=2,
    faults_max=6,
)
REPLICAS_DAMAGED: Final = replace(
    REPLICAS_POWER_LOSS,
    name="replicas-damaged",
    promise="B: as replicas-power-loss; active segments of crashed brokers may have a flipped bit",
    fault_kinds=(*_PARTITIONS, *_POWER, *_PROCESS, *("flipped-record",) * 10),
    faults_min=3,
)
# Responses take so long that leaders change, logs are truncated and segments are deleted while they are sent.
SLOW_READERS: Final = replace(
    REPLICAS_APART,
    name="slow-readers",
    promise="responses to slow consumers and followers have the bytes of the log, while leaders change",
    fault_kinds=(
        *("deposed-with-follower",) * 8,
        *("deposed", "crash-after-shrink", "crash-at-step", "pause", "restart", "reset", "delay"),
    ),
    has_slow_readers=True,
    replication=((3, 2), (3, 1), (3, 1)),
    topic_configs=(("internal.segment.bytes", "10000"), ("file.delete.delay.ms", "100")),
    node_properties=(
        *_REPLICA_PROPERTIES,
        ("connections.max.idle.ms", ("1000", "600000")),
        ("log.retention.check.interval.ms", ("300",)),
    ),
    faults_min=1,
    faults_max=3,
)
TRANSACTIONS: Final = replace(
    REPLICAS_CRASH,
    name="transactions",
    promise="9 to 13: any of three brokers crash, also coordinators, during transactions",
    has_records=False,
    has_transactions=True,
    replication=((3, 2),),
    node_properties=(
        *_REPLICA_PROPERTIES,
        ("transaction.state.log.replication.factor", ("3",)),
        ("transaction.state.log.min.isr", ("2",)),
        ("transaction.state.log.num.partitions", ("2",)),
        ("offsets.topic.replication.factor", ("3",)),
        ("offsets.topic.num.partitions", ("2",)),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", ("300", "1000")),
    ),
)
GROUPS: Final = replace(
    REPLICAS_CRASH,
    name="groups",
    promise="14 and 15: groups keep running and committed offsets stay when brokers crash",
    fault_kinds=(*_PARTITIONS, *_PROCESS, *_PROCESS, "restart-in-turn", "slow-disk", "clock-jump"),
    replication=((3, 2),),
    has_groups=True,
    node_properties=(
        *_REPLICA_PROPERTIES,
        ("group.consumer.assignment.interval.ms", ("0", "500")),
        ("group.consumer.heartbeat.interval.ms", ("200",)),
        ("group.consumer.min.heartbeat.interval.ms", ("200",)),
        ("group.consumer.min.session.timeout.ms", ("1500",)),
        ("group.consumer.session.timeout.ms", ("1500",)),
        ("group.initial.rebalance.delay.ms", ("0", "300")),
        ("group.min.session.timeout.ms", ("1000",)),
        ("min.insync.replicas", ("2",)),
        ("offsets.commit.timeout.ms", ("500", "5000")),
        ("offsets.topic.num.partitions", ("1", "2")),
        ("offsets.topic.replication.factor", ("3",)),
        ("offsets.topic.segment.bytes", ("1048576",)),
    ),
)
SECURITY: Final = Scenario(
    name="security",
    promise="ACLs, users and quotas change during failovers; decisions follow the metadata that a node has applied",
    layout=THREE_COMBINED,
    fault_kinds=(
        *_PARTITIONS,
        *_PROCESS,
        *("paused-and-reset", "restart-in-turn", "stalled", "leader-unreachable"),
        *("crash-at-lead", "crash-at-append", "isolated-at-append"),
    ),
    fault_seconds=8.0,
    fault_mean_seconds=1.5,
    faults_min=1,
    faults_max=8,
    leader_share=0.4,
    has_records=False,
    admin_seconds=(0.05, 0.1, 0.3),
    is_secured=True,
    node_properties=(
        ("broker.session.timeout.ms", ("1500", "2000")),
        ("broker.heartbeat.interval.ms", ("200",)),
        ("broker.disconnect.grace.ms", ("0", "300")),
        ("controller.quorum.election.timeout.ms", ("200", "400")),
        ("controller.quorum.fetch.timeout.ms", ("500", "1000")),
        # Nodes that were away load a snapshot.
        ("metadata.log.max.record.bytes.between.snapshots", ("500", "500", "2000")),
        ("metadata.max.retention.bytes", ("1000", "1000", "104857600")),
        ("internal.metadata.log.segment.bytes", ("2000",)),
        ("connections.max.reauth.ms", ("0", "1500", "1500", "3000")),
        ("connection.failed.authentication.delay.ms", ("0", "100")),
        ("allow.everyone.if.no.acl.found", ("false", "false", "true")),
        ("delegation.token.expiry.check.interval.ms", ("1000", "3600000")),
        ("quota.window.num", ("2",)),
    ),
)
REPLICA_SCENARIOS: Final = (
    *(REPLICAS_CRASH, REPLICAS_POWER_LOSS, REPLICAS_FLUSHED),
    *(REPLICAS_APART, REPLICAS_DEPOSED, REPLICAS_DAMAGED),
)
SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.name: one
    for one in (
        *(PROCESS_CRASHES, POWER_LOSS, THREE_NODES, FIVE_NODES, ELECTIONS, VOTERS_CHANGE),
        *REPLICA_SCENARIOS,
        *(RUNNING_BROKERS, HOSTS, SLOW_READERS),
        TRANSACTIONS,
        GROUPS,
        SECURITY,
    )
}
# The default scenario of a seed does not change when scenarios are added.
_IN_TURN: Final = (
    *(PROCESS_CRASHES, POWER_LOSS, THREE_NODES, FIVE_NODES, ELECTIONS),
    *(REPLICAS_CRASH, REPLICAS_POWER_LOSS, REPLICAS_FLUSHED, REPLICAS_APART),
)
_BY_LAST_DIGIT: Final = {7: (REPLICAS_DEPOSED, REPLICAS_DAMAGED), 8: (GROUPS,), 9: (TRANSACTIONS,)}


def default_scenario(seed: int) -> Scenario:
    tens, last_digit = divmod(seed, 10)
    in_turn = _BY_LAST_DIGIT.get(last_digit)
    return _IN_TURN[seed % len(_IN_TURN)] if in_turn is None else in_turn[tens % len(in_turn)]
