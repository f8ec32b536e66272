"""Administrative requests at a controller, and what it reports to its audit log."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.config.node_config import NodeConfig
from odradek.core.audit.event import FAILURE, SUCCESS, UNKNOWN, AuditEvent
from odradek.core.controller.controller import Controller
from odradek.core.metadata.image import ClusterImage
from odradek.quorum.audited_commands import CONTROLLER_CHANGES, ControllerAudit
from odradek.quorum.ports import BuildErrorResponse, Execute
from odradek.server.audit.trail import CURRENT, AuditTrail
from odradek.server.context import RequestContext
from odradek.wire.apis import CONTROLLER_APIS, ApiKey, load_handler
from odradek.wire.schemas import Message, Schema, schema
from tests.raw_wire import build
from tests.unit.quorum.fake_controller_node import CLUSTER_ID, PROPERTIES, FakeControllerNode
from tests.unit.server.audit.test_trail import ListSink

ANN = Principal("User", "ann")


def in_loop(test: Callable[["Stage"], Coroutine[Any, Any, None]]) -> Callable[["Stage"], None]:
    @wraps(test)
    def run(stage: "Stage") -> None:
        asyncio.run(test(stage))

    return run


class Commands:
    """Executes commands on a controller, and loses leadership before a commit if `failure` is set."""

    def __init__(self) -> None:
        config = NodeConfig.load(PROPERTIES, "server.properties")
        self.controller = Controller(config, CLUSTER_ID, random.Random(1), ClusterImage())
        self.failure: ErrorCode | None = None
        self.is_elsewhere = False
        self.commit: asyncio.Future[None] | None = None

    async def handle(
        self, request: Message, messages: Schema, execute: Execute, build_error_response: BuildErrorResponse
    ) -> Message:
        if self.is_elsewhere:
            return build_error_response(request, messages, KafkaError(ErrorCode.not_controller))
        result = execute(request, messages, self.controller)
        if self.commit is not None:
            await self.commit
        if self.failure is not None:
            return build_error_response(request, messages, KafkaError(self.failure))
        return result.response


class Stage:
    def __init__(self) -> None:
        self.sink = ListSink()
        self.node: Any = FakeControllerNode()
        self.node.controller = self.commands = Commands()
        self.audit = ControllerAudit(AuditTrail(1, self.node.clock, self.sink), has_authorizer=True)

    async def request(self, api_key: int, version: int, fields: dict[str, Any]) -> Any:
        messages = schema(api_key, version)
        context = RequestContext(
            api_key, version, "app", "CLIENT", "10.0.0.1", messages, principal=ANN, is_forwarded=True
        )
        handle = self.audit.add_to(api_key, load_handler(CONTROLLER_APIS[api_key]).handle)
        return await handle(build(messages.request_type, fields), context, self.node)

    async def set_quota(self, key: str = "producer_byte_rate", *, validate_only: bool = False) -> list[AuditEvent]:
        entry = {
            "entity": [{"entity_type": "user", "entity_name": "bob"}],
            "ops": [{"key": key, "value": 10.0, "remove": False}],
        }
        await self.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": validate_only})
        return self.sink.events


@pytest.fixture
def stage() -> Stage:
    return Stage()


@in_loop
async def test_committed_change_is_reported_with_its_caller(stage: Stage) -> None:
    (event,) = await stage.set_quota()
    assert (event.event, event.outcome, event.resource_name) == ("quota.alter", SUCCESS, "user=bob")
    assert (event.before, event.after) == ({"producer_byte_rate": None}, {"producer_byte_rate": 10.0})
    caller = event.caller
    assert (caller.principal, caller.address, caller.client_id, caller.api) == (
        ANN,
        "10.0.0.1",
        "app",
        "AlterClientQuotas",
    )
    assert caller.is_forwarded
    assert stage.sink.sizes == [(1, True)]
    assert CURRENT.get() is None


@in_loop
async def test_invalid_change_is_reported_as_failed(stage: Stage) -> None:
    (event,) = await stage.set_quota("no_such_quota")
    assert (event.event, event.outcome, event.error) == ("quota.alter", FAILURE, "INVALID_REQUEST")
    assert event.resource_name == "user=bob"


@in_loop
async def test_validation_alone_is_not_reported(stage: Stage) -> None:
    assert await stage.set_quota(validate_only=True) == []


@in_loop
async def test_another_controller_reports_what_it_executes(stage: Stage) -> None:
    stage.commands.is_elsewhere = True
    assert await stage.set_quota() == []


@in_loop
async def test_change_that_may_be_committed_later_is_reported_as_unknown(stage: Stage) -> None:
    stage.commands.failure = ErrorCode.not_controller
    (event,) = await stage.set_quota()
    assert (event.outcome, event.error) == (UNKNOWN, "NOT_CONTROLLER")


@in_loop
async def test_change_of_a_client_that_has_gone_is_reported(stage: Stage) -> None:
    stage.commands.commit = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(stage.set_quota())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (event,) = stage.sink.events
    assert event.outcome == UNKNOWN


@in_loop
async def test_voter_changes_are_reported_with_the_voters(stage: Stage) -> None:
    messages = schema(ApiKey.REMOVE_RAFT_VOTER, 0)

    class Quorum:
        voter_ids = [1, 2, 3]  # noqa: RUF012 - replaced, not changed

        async def handle(self, *_: Any) -> Message:
            self.voter_ids = [1, 2]
            return build(messages.response_type, {"error_code": ErrorCode.none})

    stage.node.quorum = Quorum()
    await stage.request(ApiKey.REMOVE_RAFT_VOTER, 0, {"voter_id": 3})
    (event,) = stage.sink.events
    assert (event.event, event.resource_name) == ("voter.remove", "3")
    assert (event.before, event.after) == ({"voters": [1, 2, 3]}, {"voters": [1, 2]})


def test_every_administrative_api_of_controllers_is_audited() -> None:
    unaudited = {
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
    from odradek.wire.apis import FORWARDABLE_APIS

    served = {key for key in FORWARDABLE_APIS if key in CONTROLLER_APIS}
    assert served - set(CONTROLLER_CHANGES) <= unaudited
