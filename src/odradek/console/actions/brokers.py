"""Brokers forgotten that will not come back."""

from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.membership import Member, brokers, unregister_broker
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.table import counted


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
        self._fenced(cluster)
        layout = cluster.retry("listing topics", lambda: cluster.layout(None))
        held = sum(self.broker in one.replicas for topic in layout.topics.values() for one in topic.partitions)
        warnings = (
            [f"{counted(held, 'replica stays', 'replicas stay')} assigned to it, and missing, until moved elsewhere."]
            if held
            else []
        )
        return Preview(
            sentence=f"The cluster forgets broker {self.broker}. It registers again if it is started again.",
            warnings=warnings,
            typed=str(self.broker),
        )

    def carry_out(self, cluster: Cluster) -> str:
        self._fenced(cluster)
        unregister_broker(cluster, self.broker)
        return f"Broker {self.broker} is forgotten."

    def _fenced(self, cluster: Cluster) -> Member:
        known = brokers(cluster).nodes
        member = known.get(self.broker)
        if member is None:
            raise Refused(f"There is no broker {self.broker}: the brokers are {', '.join(map(str, sorted(known)))}.")
        if not member.is_fenced:
            raise Refused(f"Broker {self.broker} is online: stop it first, or it registers again at once.")
        return member
