"""The interface of one node of a cluster under test, in a thread or in a process."""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig
    from odradek.testing.faults import Faults

STOP_SECONDS_MAX: Final = 30.0


class Member(Protocol):
    node_id: int

    @property
    def is_running(self) -> bool:
        """True also while the node is paused."""

    @property
    def is_paused(self) -> bool: ...

    @property
    def exit_reason(self) -> str:
        """Why the node exited on its own; empty if it did not."""

    def prepare(self) -> None:
        """Do everything that does not need the configuration."""

    def start(self, config: "NodeConfig", faults: "Faults") -> None: ...

    def wait_until_serving(self, seconds_max: float) -> None:
        """Wait until the node serves requests. Raises ClusterError."""

    def stop(self) -> None:
        """Stop cleanly. Raises ClusterError if the node does not stop."""

    def kill(self) -> None:
        """Kill the node as `kill -9` does: without flushing and without a controlled shutdown."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def apply_faults(self, faults: "Faults") -> None:
        """Apply these faults now, or once a paused node is resumed."""
