"""The faults of one node: of its disk and of its network. The same for nodes in threads and in processes.

Faults belong to the machine, not to the process: a restarted node still has them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Faults:
    disk_is_full: bool = False
    disk_delay_ms: float = 0.0
    """The delay of every write and of every read that waits for the device."""
    node_at: Mapping[int, int] = field(default_factory=dict)
    """The node that listens on each port."""
    side_of: Mapping[int, int] = field(default_factory=dict)
    """The side of each node while the network is partitioned. Nodes without a side reach all nodes."""

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Faults":
        fields = json.loads(line)
        for name in ("node_at", "side_of"):
            fields[name] = {int(key): value for key, value in fields[name].items()}
        return cls(**fields)
