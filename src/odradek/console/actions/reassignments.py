"""Elects preferred leaders, and starts or cancels partition reassignments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.placement import PlacedPartition, loads_of, skew_of
from odradek.client.reassignment_plan import CannotPlan, PlannedReassignment, Purpose, plan_reassignments
from odradek.client.reassignments import Reassignments
from odradek.client.replica_count import plan_replica_count
from odradek.client.survey import Survey, survey
from odradek.client.throttles import ReplicationThrottles
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.partitions import REASSIGNMENT_COLUMNS, cost_sentence, reassignment_rows
from odradek.console.readings.refusals import explain
from odradek.console.readings.table import Column, Row, format_count, inert


@dataclass(slots=True, kw_only=True)
class ReassignPartitions:
    """Reassigns partitions to given replicas or for a purpose; starts exactly the previewed plan."""

    wanted: Mapping[TopicPartition, tuple[int, ...]] | None = None
    purpose: Purpose | None = None
    throttle: int | None = None
    """Bytes per second."""
    name: str = "Reassign partitions"
    _reassignments: Sequence[PlannedReassignment] = field(default=(), init=False)

    @property
    def target(self) -> str:
        if self.wanted is not None:
            return ", ".join(f"partition {one}" for one in self.wanted)
        return _purpose_in_words(self.purpose or Purpose())

    def details(self) -> dict[str, object]:
        return {
            "throttle_bytes_per_s": self.throttle,
            "moves": {
                str(reassignment.partition): {"from": reassignment.before, "to": reassignment.after}
                for reassignment in self._reassignments
            },
        }

    def preview(self, cluster: Cluster) -> Preview:
        found = survey(cluster)
        ongoing = {reassignment.partition for reassignment in Reassignments(cluster).list_ongoing()}
        self._reassignments = self._plan_reassignments(found)
        for reassignment in self._reassignments:
            if reassignment.partition in ongoing:
                raise Refused(
                    f"{inert(str(reassignment.partition))} is already being reassigned. Wait, or cancel it first."
                )
        if not self._reassignments:
            return Preview(sentence="Nothing to reassign: every replica is already where it belongs.", is_empty=True)
        warnings = (
            [] if self.throttle is None else ["The throttle remains set until you remove it on the Reassignments page."]
        )
        return Preview(
            sentence=f"{cost_sentence(self._reassignments, self.throttle)}{_evenness(self._reassignments, found)}",
            columns=REASSIGNMENT_COLUMNS,
            rows=reassignment_rows(self._reassignments),
            warnings=warnings,
        )

    def carry_out(self, cluster: Cluster) -> str:
        if not self._reassignments:
            raise Refused("Open the preview first: the console applies exactly what the preview shows.")
        if self.throttle is not None:
            ReplicationThrottles(cluster).limit(self._reassignments, self.throttle)
        refused = Reassignments(cluster).start(
            {reassignment.partition: reassignment.after for reassignment in self._reassignments}
        )
        return _result_sentence(len(self._reassignments), "being reassigned", refused)

    def _plan_reassignments(self, found: Survey) -> list[PlannedReassignment]:
        if self.wanted is not None:
            return _reassignments_to(self.wanted, found)
        purpose = self.purpose or Purpose()
        for broker in sorted(purpose.drain | purpose.fill):
            if broker not in found.members:
                known = ", ".join(map(str, sorted(found.members)))
                raise Refused(f"Broker {broker} does not exist. Registered brokers: {known}.")
        try:
            return plan_reassignments(found.placed_partitions(), found.places, found.online, purpose)
        except CannotPlan as error:
            raise Refused(f"{inert(str(error))}. Add brokers, or drain fewer.") from None


@dataclass(slots=True, kw_only=True)
class ChangeReplicas(ReassignPartitions):
    """Changes the replication factor of a topic through reassignments."""

    topic: str
    count: int
    name: str = "Change replicas"

    @property
    def target(self) -> str:
        return f"topic {self.topic}"

    def details(self) -> dict[str, object]:
        # A bare super() fails here because dataclass(slots=True) creates a new class.
        return {"replicas": self.count} | ReassignPartitions.details(self)

    def _plan_reassignments(self, found: Survey) -> list[PlannedReassignment]:
        if self.topic not in found.topics:
            raise Refused(f"Topic {inert(self.topic)!r} no longer exists.")
        try:
            return plan_replica_count(found.placed_partitions(), found.places, found.online, self.topic, self.count)
        except CannotPlan as error:
            raise Refused(f"{inert(str(error))}. Enter a number from 1 to {len(found.online)}.") from None


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    partitions: tuple[TopicPartition, ...] | None
    """None means all partitions."""
    name: str = "Elect preferred leaders"

    @property
    def target(self) -> str:
        return "all partitions" if self.partitions is None else ", ".join(map(str, self.partitions))

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        layout = cluster.retry("listing topics", lambda: cluster.layout(None))
        led_by_others = {
            TopicPartition(topic.name, one.id): one
            for topic in layout.topics.values()
            for one in topic.partitions
            if one.leader != one.replicas[0]
            and (self.partitions is None or TopicPartition(topic.name, one.id) in self.partitions)
        }
        rows = [
            Row(
                str(name),
                {"partition": inert(str(name)), "now": str(one.leader), "then": str(one.replicas[0])},
            )
            for name, one in sorted(led_by_others.items())
        ]
        return Preview(
            sentence=format_count(
                len(rows), "partition gets its preferred leader", "partitions get their preferred leaders"
            )
            + "; no data is copied."
            if rows
            else "Every partition is already led by its preferred leader.",
            columns=(
                Column("partition", "Partition"),
                Column("now", "Leader", is_number=True),
                Column("then", "Then", is_number=True),
            )
            if rows
            else (),
            rows=rows,
            is_empty=not rows,
        )

    def carry_out(self, cluster: Cluster) -> str:
        elected, refused = Reassignments(cluster).elect_preferred(self.partitions)
        return _result_sentence(len(elected) + len(refused), "now led by the preferred leader", refused)


@dataclass(frozen=True, slots=True)
class CancelReassignments:
    partitions: tuple[TopicPartition, ...] | None
    """None means all ongoing reassignments."""
    name: str = "Cancel reassignments"

    @property
    def target(self) -> str:
        return "all reassignments" if self.partitions is None else ", ".join(map(str, self.partitions))

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        names = self._under_way(cluster)
        return Preview(
            sentence=f"{format_count(len(names), 'partition returns', 'partitions return')} to the previous replicas."
            if names
            else "No reassignments in progress.",
            columns=(Column("partition", "Partition"),) if names else (),
            rows=[Row(str(name), {"partition": inert(str(name))}) for name in names],
            is_empty=not names,
        )

    def carry_out(self, cluster: Cluster) -> str:
        names = self._under_way(cluster)
        return _result_sentence(len(names), "cancelled", Reassignments(cluster).cancel(names))

    def _under_way(self, cluster: Cluster) -> list[TopicPartition]:
        names = [reassignment.partition for reassignment in Reassignments(cluster).list_ongoing()]
        return [name for name in names if self.partitions is None or name in self.partitions]


@dataclass(frozen=True, slots=True)
class ClearThrottles:
    name: str = "Remove throttles"
    target: str = "all topics and brokers"

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        reassigning = Reassignments(cluster).list_ongoing()
        warnings = (
            [f"{format_count(len(reassigning), 'partition')} being reassigned will continue without a limit."]
            if reassigning
            else []
        )
        return Preview(sentence="Removes all replication throttles from topics and brokers.", warnings=warnings)

    def carry_out(self, cluster: Cluster) -> str:
        count = ReplicationThrottles(cluster).clear()
        return f"Removed the throttles of {count:,} topics and brokers." if count else "No throttles were set."


def _reassignments_to(wanted: Mapping[TopicPartition, tuple[int, ...]], found: Survey) -> list[PlannedReassignment]:
    reassignments = []
    for partition, replicas in wanted.items():
        layout = found.partitions.get(partition)
        if layout is None:
            raise Refused(f"Partition {inert(str(partition))} no longer exists.")
        if not replicas or len(set(replicas)) != len(replicas):
            raise Refused("Enter the brokers for its replicas, each once, starting with the preferred leader.")
        for broker in replicas:
            if broker not in found.online:
                online = ", ".join(map(str, sorted(found.online)))
                raise Refused(f"Broker {broker} is not online. Online brokers: {online}.")
        if layout.replicas != replicas:
            size_bytes = found.size_of(partition, layout)
            reassignments.append(
                PlannedReassignment(partition=partition, before=layout.replicas, after=replicas, size_bytes=size_bytes)
            )
    return reassignments


def _evenness(reassignments: Sequence[PlannedReassignment], found: Survey) -> str:
    """Compares the skew of replicas and leaders before and after the reassignment."""
    after = {reassignment.partition: reassignment.after for reassignment in reassignments}
    now = found.placed_partitions()
    then = [
        PlacedPartition(
            partition=one.partition, replicas=after.get(one.partition, one.replicas), size_bytes=one.size_bytes
        )
        for one in now
    ]
    before, later = (skew_of(list(loads_of(placed, found.online).values())) for placed in (now, then))
    return (
        f" Brokers differ by {later.replicas} replicas then (now {before.replicas})"
        f" and {later.leaders} leaders (now {before.leaders})."
    )


def _purpose_in_words(purpose: Purpose) -> str:
    parts = []
    if purpose.drain:
        parts.append(f"drain brokers {', '.join(map(str, sorted(purpose.drain)))}")
    if purpose.fill:
        parts.append(f"fill brokers {', '.join(map(str, sorted(purpose.fill)))}")
    if purpose.even:
        parts.append("rebalance all brokers")
    return ", ".join(parts)


def _result_sentence(count: int, done: str, refused: Mapping[TopicPartition, KafkaError]) -> str:
    """Raises Refused if the cluster refused every partition."""
    if not refused:
        return f"{format_count(count, 'partition')} {done}."
    partition, error = min(refused.items())
    why = f"{len(refused):,} of {format_count(count, 'partition')} refused; {inert(str(partition))}: {explain(error)}"
    if len(refused) == count:
        raise Refused(why)
    return f"{format_count(count - len(refused), 'partition')} {done}. {why}"
