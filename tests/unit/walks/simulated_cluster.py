"""Three combined nodes in the simulator, without faults, and one client whose requests are traced."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from odradek.base.ids import METADATA_TOPIC
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import Connection
from odradek.sim.computer import Ports
from odradek.sim.layout import CLIENT_PORT, THREE_COMBINED, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.world import World, simulated_world
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema
from tests.unit.walks.call_chain import Tracer, Walk

CLIENT: Final = "walker"
_SECONDS_MAX: Final = 60.0

_SEEDS: Final = range(1, 6)

Program = Callable[["Client"], Awaitable[None]]


class Client(ClusterClient):
    """Speaks the newest versions, and traces the request that follows `trace_next`."""

    def __init__(self, ports: Ports, addresses: Mapping[int, tuple[str, int]], world: World) -> None:
        super().__init__(ports, list(addresses.values()), world.trace)
        self._addresses: Final = addresses
        self._active_controller: tuple[str, int] | None = None
        self._traced: tuple[int, Sequence[str]] | None = None
        self.walk: Walk | None = None

    def trace_next(self, api_key: int, *landmarks: str) -> None:
        self._traced = api_key, landmarks

    async def use_active_controller(self) -> None:
        """Sends the next requests to the active controller's node, which has no need to forward them."""

        def build(chosen: Schema) -> Message:
            partition = chosen.new_in_request("PartitionData", partition_index=0)
            topic = chosen.new_in_request("TopicData", topic_name=METADATA_TOPIC, partitions=(partition,))
            return chosen.new("DescribeQuorumRequest", topics=(topic,))

        response = await self.send_request(await self.connect_to_any(), ApiKey.DESCRIBE_QUORUM, build)
        self._active_controller = self._addresses[response.topics[0].partitions[0].leader_id]

    def any_address(self) -> tuple[str, int]:
        return self._active_controller or super().any_address()

    def version(self, connection: Connection, api_key: int) -> Schema:
        return schema(api_key, connection.served[api_key][1])

    async def send_request(
        self, connection: Connection, api_key: int, build: Callable[[Schema], Message], *, extra_seconds: float = 0.0
    ) -> Message:
        if self._traced is None or api_key != self._traced[0]:
            return await super().send_request(connection, api_key, build, extra_seconds=extra_seconds)
        tracer = Tracer(api_key, CLIENT.encode(), self._traced[1])
        self._traced = None
        with tracer.running():
            response = await super().send_request(connection, api_key, build, extra_seconds=extra_seconds)
        self.walk = tracer.walk
        return response


def walk(program: Program) -> Walk:
    """Runs the program against a cluster, and returns the walk of the request that it traced."""
    # The simulated network may split a request in its header, which hides it from the tracer.
    return next(found for seed in _SEEDS if (found := _walk(program, seed)).paths)


def _walk(program: Program, seed: int) -> Walk:
    with simulated_world(seed) as world:
        plan = plan_nodes(THREE_COMBINED, world.random("cluster"))
        nodes = [NodeHost(world, planned) for planned in plan.nodes]
        for node in nodes:
            node.format(plan.initial_controllers)
            node.start()
        assert world.run_for(_SECONDS_MAX, lambda: all(node.is_ready for node in nodes)), "the cluster did not start"
        clients: list[Client] = []
        finished: list[bool] = []

        async def run(ports: Ports) -> int:
            addresses = {node.planned.node_id: (node.name, CLIENT_PORT) for node in nodes}
            client = Client(ports, addresses, world)
            clients.append(client)
            await program(client)
            finished.append(True)
            return 0

        world.add_computer(CLIENT).run(run)
        assert world.run_for(_SECONDS_MAX, lambda: bool(finished)), "the client did not finish"
        assert not world.unexpected, world.unexpected
        found = clients[0].walk
    assert found is not None, "no request was traced"
    return found
