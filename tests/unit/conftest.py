from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.sim.world import World, simulated_world
from tests.unit.broker.fake_broker import FakeBroker


@pytest.fixture
def world() -> Iterator[World]:
    with simulated_world(7, keep_trace=True) as one:
        yield one


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    return FakeBroker(tmp_path)
