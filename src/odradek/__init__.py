"""Odradek: Apache Kafka's cluster, in Python."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.pipelines.arrow.reading import read_topic

__version__ = "0.3.0.dev0"

__all__ = ["read_topic"]


def __getattr__(name: str) -> Any:
    """Imports names that need an extra on first use: a node starts without the extra."""
    if name == "read_topic":
        return import_module("odradek.pipelines.arrow.reading").read_topic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
