"""The ports through which metrics read a node. `node/observation.py` implements them."""

from collections.abc import Mapping
from typing import Protocol

from odradek.broker.fetch_sessions import FetchSessions
from odradek.core.metadata.image import ClusterImage
from odradek.instruments.authentication import AuthenticationCounts
from odradek.instruments.elections import ElectionCounts
from odradek.instruments.loop_watch import LoopWatch
from odradek.instruments.replication import IsrCounts
from odradek.instruments.requests import RequestMeters
from odradek.instruments.traffic import BrokerTraffic
from odradek.storage.log.log_dirs import LogDirs
from odradek.storage.partition.partition import Partition


class BrokerView(Protocol):
    @property
    def traffic(self) -> BrokerTraffic: ...

    @property
    def isr_counts(self) -> IsrCounts: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def log_dirs(self) -> LogDirs: ...

    def partitions(self) -> Mapping[tuple[str, int], Partition]: ...

    def offline_partitions(self) -> int: ...


class QuorumView(Protocol):
    @property
    def leader_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...


class NodeView(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str | None:
        """None until the node has loaded it."""

    @property
    def broker(self) -> BrokerView | None: ...

    @property
    def quorum(self) -> QuorumView | None: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def is_active_controller(self) -> bool: ...

    @property
    def meters(self) -> RequestMeters: ...

    @property
    def elections(self) -> ElectionCounts: ...

    @property
    def loop_watch(self) -> LoopWatch: ...

    @property
    def broker_state(self) -> int:
        """As the value that Kafka uses."""

    def connections(self) -> Mapping[str, int]:
        """The number of connections, by listener."""

    def authentications(self) -> Mapping[str, AuthenticationCounts]:
        """By listener with SASL."""

    def certificate_expiries_ms(self) -> Mapping[str, int]:
        """When the first certificate of each listener with TLS expires."""

    def why_failed(self) -> str | None:
        """Why this process has failed; None: it has not."""

    def why_not_ready(self) -> str | None:
        """Why this node does not serve clients; None: it does."""
