from tests.unit.server.peer_stage import play
from tests.unit.sim.conftest import world

__all__ = ["play", "world"]
