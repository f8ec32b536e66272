"""Pytest fixtures that are available once Odradek is installed. Nothing else is imported until one is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster


@pytest.fixture(scope="session")
def kafka_cluster() -> "Iterator[Cluster]":
    """Three brokers in this process, shared by all tests of the session. Use separate topics per test."""
    from odradek.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_broker() -> "Iterator[Cluster]":
    """One broker in this process, shared by all tests of the session. Use separate topics per test."""
    from odradek.testing.cluster import Cluster

    with Cluster(brokers=1) as cluster:
        yield cluster
