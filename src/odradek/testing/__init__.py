"""For people who write tests: a real replicated Kafka cluster inside a test, and the faults to try one's code with.

Importing it costs nothing: pytest imports it, for its plugin, in every run, also where no cluster is wanted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster
    from odradek.testing.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]

_HOMES = {"Cluster": "odradek.testing.cluster", "ClusterError": "odradek.testing.errors"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
