"""Unregisters brokers that will not return."""

from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.membership import Member, brokers, unregister_broker
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.table import format_count


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    broker: int
    name: str = "Unregister broker"

    @property
    def target(self) -> str:
        return f"broker {self.broker}"

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        self._check_fenced(cluster)
        layout = cluster.retry("listing topics", lambda: cluster.layout(None))
        held = sum(self.broker in one.replicas for topic in layout.topics.values() for one in topic.partitions)
        warnings = (
            [f"{format_count(held, 'replica remains', 'replicas remain')} assigned to it and offline until reassigned."]
            if held
            else []
        )
        return Preview(
            sentence=f"Removes the registration of broker {self.broker}. It registers again if it is restarted.",
            warnings=warnings,
            typed=str(self.broker),
        )

    def carry_out(self, cluster: Cluster) -> str:
        self._check_fenced(cluster)
        unregister_broker(cluster, self.broker)
        return f"Broker {self.broker} is unregistered."

    def _check_fenced(self, cluster: Cluster) -> Member:
        known = brokers(cluster).nodes
        member = known.get(self.broker)
        if member is None:
            raise Refused(
                f"Broker {self.broker} does not exist. Registered brokers: {', '.join(map(str, sorted(known)))}."
            )
        if not member.is_fenced:
            raise Refused(f"Broker {self.broker} is online. Stop it first: a running broker registers again at once.")
        return member
