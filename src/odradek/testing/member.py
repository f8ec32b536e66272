"""One node of a cluster under test, as the cluster handles it, whether it lives in a thread or in a process."""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig
    from odradek.testing.circumstances import Circumstances

STOP_SECONDS_MAX: Final = 30.0


class Member(Protocol):
    node_id: int

    @property
    def is_running(self) -> bool:
        """Also while it is paused."""

    @property
    def is_paused(self) -> bool: ...

    @property
    def end(self) -> str:
        """Why it is not running, if nobody asked it to end."""

    def prepare(self) -> None:
        """What can be done before there is a configuration."""

    def begin(self, config: "NodeConfig", circumstances: "Circumstances") -> None: ...

    def wait_until_serving(self, seconds_max: float) -> None:
        """Raises ClusterError."""

    def stop(self) -> None:
        """Cleanly. Raises ClusterError if it does not obey."""

    def kill(self) -> None:
        """At once, as kill -9 does: nothing is flushed, and nobody is told."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def live_with(self, circumstances: "Circumstances") -> None:
        """From now on, if it is running and not paused; if it is paused, once it is not."""
