"""Records which metadata each node has applied, and so which ACLs, credentials and quotas it must use."""

from collections.abc import Sequence
from typing import Final

from odradek.sim.node_host import NodeHost
from odradek.sim.security_history import NO_OFFSET, SecurityHistory


class SecurityRecorder:
    """A node reports this offset in its heartbeats and fetches. It never decreases, also after a restart: a broker
    serves clients once it has applied its own registration, and a controller once it has applied all that is committed.
    """

    def __init__(self, nodes: Sequence[NodeHost], history: SecurityHistory) -> None:
        self._nodes: Final = {node.name: node for node in nodes}
        self._voters: Final = [node.name for node in nodes if node.planned.is_voter]
        self._floors: Final = dict.fromkeys(self._nodes, NO_OFFSET)
        history.floor_of = self.floor
        history.controller_floor = self.controller_floor
        history.run_of = lambda node: self._nodes[node].computer.runs
        for node in nodes:
            node.add_end_listener(lambda name=node.name: self._on_end(name))  # type: ignore[misc]

    def floor(self, node: str) -> int:
        self._floors[node] = found = max(self._floors[node], self._nodes[node].applied_offset)
        return found

    def controller_floor(self) -> int:
        return min(map(self.floor, self._voters))

    def _on_end(self, node: str) -> None:
        self.floor(node)
