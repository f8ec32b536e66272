"""The authorizer of a controller: not ready before the committed ACLs are loaded, and up to date from then on."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.core.security.access import UNRESTRICTED, AuthorizerNotReady
from odradek.core.security.resources import Operation, ResourceType
from odradek.node.controller_node import ControllerNode
from odradek.quorum.quorum import Quorum
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import schema
from tests.unit.quorum.quorum_host import CLUSTER_ID, Host, handle

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
HOST = "127.0.0.1"


class UnreachableController:
    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        await asyncio.get_running_loop().create_future()


def controller_node(host: Host, quorum: Quorum) -> ControllerNode:
    return ControllerNode(host.config, quorum, cluster_id=CLUSTER_ID, clock=host.clock, executor=host.executor)


def start(node: ControllerNode) -> None:
    node.start(UnreachableController(), endpoints=(), incarnation_id=UUID(int=1), random=Random(1))


async def until_ready(node: ControllerNode) -> None:
    assert node._loading_acls is not None
    await node._loading_acls


def may_read(node: ControllerNode, principal: Principal) -> bool:
    return node.access_of(principal, HOST).allows(Operation.READ, ResourceType.TOPIC, "a")


async def create_acl(quorum: Quorum, principal: Principal) -> None:
    messages = schema(ApiKey.CREATE_ACLS, 3)
    creation = messages.new(
        "AclCreation",
        resource_type=2,
        resource_name="a",
        resource_pattern_type=3,
        principal=str(principal),
        host="*",
        operation=3,
        permission_type=3,
    )
    await handle(quorum, ApiKey.CREATE_ACLS, 3, messages.new("CreateAclsRequest", creations=(creation,)))


def test_controller_authorizes_by_the_committed_acls(tmp_path: Path) -> None:
    host = Host(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root")
    alice = Principal(USER, "alice")

    async def first(quorum: Quorum) -> None:
        node = controller_node(host, quorum)
        start(node)
        with pytest.raises(AuthorizerNotReady):
            may_read(node, alice)
        assert may_read(node, Principal(USER, "root"))
        await until_ready(node)
        assert not may_read(node, alice)
        await create_acl(quorum, alice)
        assert may_read(node, alice)
        assert not may_read(node, ANONYMOUS)
        node.stop()
        await quorum.stop()

    async def after_restart(quorum: Quorum) -> None:
        node = controller_node(host, quorum)
        start(node)
        await until_ready(node)
        assert may_read(node, alice)
        node.stop()
        await quorum.stop()

    host.run(first)
    host.run(after_restart)


def test_without_authorizer_everything_is_allowed(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def scenario(quorum: Quorum) -> None:
        node = controller_node(host, quorum)
        assert node.authorizer is None
        assert node.access_of(ANONYMOUS, HOST) is UNRESTRICTED
        await quorum.stop()

    host.run(scenario)
