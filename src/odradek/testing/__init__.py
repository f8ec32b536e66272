"""A real replicated Kafka cluster for tests, with fault injection.

Importing this package is cheap, because pytest imports it for its plugin in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster
    from odradek.testing.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]

_MODULES = {"Cluster": "odradek.testing.cluster", "ClusterError": "odradek.testing.errors"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
