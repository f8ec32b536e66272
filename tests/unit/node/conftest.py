from collections.abc import Iterator

import pytest

from odradek.sim.world import World, simulated_world


@pytest.fixture
def world() -> Iterator[World]:
    with simulated_world(7, keep_trace=True) as one:
        yield one
