"""What one node has to live with: its disk's troubles, and whom it cannot hear. The same for threads and processes.

They are the machine's, not the process's: a node that is started again finds them as they were.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Circumstances:
    disk_is_full: bool = False
    disk_delay_ms: float = 0.0
    """How much longer every write, and every wait for the device, takes."""
    node_at: Mapping[int, int] = field(default_factory=dict)
    """Which node listens at a port."""
    side_of: Mapping[int, int] = field(default_factory=dict)
    """While the network is cut: on which side a node is. Nodes that are on no side reach everybody."""

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Circumstances":
        fields = json.loads(line)
        for name in ("node_at", "side_of"):
            fields[name] = {int(key): value for key, value in fields[name].items()}
        return cls(**fields)
