"""Copies of the disks of running brokers, which start on other computers while the brokers keep running.

A clone ends with its original: what it may do when the original is dead depends on the age of the copy.
"""

from dataclasses import replace
from typing import Final

from odradek.sim.node_host import NodeHost
from odradek.sim.world import World


class Clones:
    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._clones: Final[dict[str, NodeHost]] = {}

    def start(self, original: NodeHost, seconds: float, *, advertises_original: bool) -> None:
        """`advertises_original`: the clone registers the endpoint of its original."""
        if not original.is_ready or not original.is_wanted:
            return
        name = f"{original.name}-clone"
        clone = self._clones.get(name)
        if clone is None:
            clone = self._clones[name] = self._new_clone(original, name, advertises_original)
            original.add_end_listener(clone.computer.kill)
        if clone.computer.is_running:
            return
        clone.computer.disk.copy_from(original.computer.disk)
        clone.start()
        # A service manager would restart it: one attempt suffices.
        clone.is_wanted = False
        self._world.scheduler.call_after(seconds, clone.computer.kill)

    def end(self) -> None:
        for clone in self._clones.values():
            clone.computer.kill()

    def _new_clone(self, original: NodeHost, name: str, advertises_original: bool) -> NodeHost:
        advertised, port = original.planned.host if advertises_original else name, original.planned.client_port
        properties = {
            **original.planned.properties,
            "listeners": f"PLAINTEXT://{name}:{port}",
            "advertised.listeners": f"PLAINTEXT://{advertised}:{port}",
        }
        return NodeHost(self._world, replace(original.planned, name=name, host=name, properties=properties))
