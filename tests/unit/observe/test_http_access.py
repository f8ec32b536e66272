"""Who an HTTP client is, and what it needs for each path."""

import asyncio
import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.security.access import Access, AuthorizerNotReady
from odradek.core.security.resources import Operation, ResourceType
from odradek.observe.endpoint import HttpEndpoint
from odradek.observe.http_access import PASSWORD_CHARACTERS_MAX, HttpClient, HttpSecurity
from odradek.observe.http_exchange import Request, Response
from tests.unit.fake_access import FakeAccess, Grant, on_cluster
from tests.unit.observe.test_endpoint import Inline

ALICE = Principal("User", "alice")
DESCRIBE = on_cluster(Operation.DESCRIBE)


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


class Stage:
    """An endpoint of a node with an authorizer, and with one user."""

    def __init__(self, **granted: tuple[Grant, ...]) -> None:
        self.security = HttpSecurity(has_authorizer=True)
        self.security.access_of = self.access_of
        self.security.authenticate = self.authenticate
        self.granted = granted
        self.clients: list[tuple[Principal, str]] = []
        self.passwords: list[str] = []
        node: Any = SimpleNamespace(why_failed=lambda: None, why_not_ready=lambda: None)
        self.endpoint = HttpEndpoint(node, Inline(), self.security)
        self.endpoint.publish("traffic", self.traffic)

    def access_of(self, principal: Principal, host: str) -> Access:
        self.clients.append((principal, host))
        return FakeAccess(*self.granted.get(principal.name, ()))

    def authenticate(self, user: str, password: str) -> Principal | None:
        self.passwords.append(password)
        return ALICE if (user, password) == ("alice", "right") else None

    async def traffic(self, client: HttpClient) -> dict[str, str]:
        return {"principal": str(client.principal)}

    def get(self, path: str = "/v1/traffic", authorization: str | None = None, method: str = "GET") -> Response:
        return asyncio.run(self.endpoint.respond(Request(method, path, "", authorization, "10.1.2.3")))


def test_describe_on_the_cluster_shows_traffic_to_its_principal() -> None:
    stage = Stage(alice=(DESCRIBE,))
    found = stage.get(authorization=basic("alice", "right"))
    assert (found.status, json.loads(found.body)) == (200, {"principal": "User:alice"})
    assert stage.clients == [(ALICE, "10.1.2.3")]


def test_authenticated_client_without_the_operation_is_forbidden() -> None:
    found = Stage(alice=(on_cluster(Operation.ALTER),)).get(authorization=basic("alice", "right"))
    assert found.status == 403
    assert json.loads(found.body) == {"error": "User:alice needs DESCRIBE permission on the cluster"}
    assert found.headers == ()


@pytest.mark.parametrize("path", ["/v1/traffic", "/metrics", "/nothing", "/v1/nothing"])
def test_anonymous_client_is_asked_for_a_password(path: str) -> None:
    stage = Stage()
    found = stage.get(path)
    assert found.status == 401
    assert dict(found.headers)["WWW-Authenticate"].startswith("Basic ")
    assert stage.get(path, method="POST").status == 401
    assert stage.clients[0] == (ANONYMOUS, "10.1.2.3")
    # A node without passwords has nothing to ask for.
    stage.security.authenticate = None
    assert stage.get(path).status == 403


def test_anonymous_client_may_do_what_acls_allow_it() -> None:
    found = Stage(ANONYMOUS=(DESCRIBE,)).get()
    assert (found.status, json.loads(found.body)) == (200, {"principal": "User:ANONYMOUS"})


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "right"), ("", ""), ("alice", "")])
def test_wrong_password_is_rejected_even_if_anonymous_clients_are_allowed(user: str, password: str) -> None:
    found = Stage(ANONYMOUS=(DESCRIBE,)).get(authorization=basic(user, password))
    assert (found.status, json.loads(found.body)) == (401, {"error": "unknown user or wrong password"})


def test_long_password_is_not_checked() -> None:
    stage = Stage()
    assert stage.get(authorization=basic("alice", "x" * (PASSWORD_CHARACTERS_MAX + 1))).status == 401
    assert stage.passwords == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_nothing(path: str) -> None:
    stage = Stage()
    stage.security.access_of = None
    assert stage.get(path).status == 200
    assert stage.get(path, authorization=basic("alice", "wrong")).status == 200
    assert stage.clients == []


def test_nothing_is_shown_before_the_acls_are_loaded() -> None:
    class NotReady(FakeAccess):
        def allows(
            self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True
        ) -> bool:
            raise AuthorizerNotReady

    stage = Stage(ANONYMOUS=(DESCRIBE,))
    stage.security.access_of = lambda principal, host: NotReady()
    assert stage.get().status == 503
    stage.security.access_of = None
    assert stage.get().status == 503


def test_without_authorizer_everything_is_open() -> None:
    stage = Stage()
    stage.endpoint = HttpEndpoint(SimpleNamespace(), Inline(), HttpSecurity(has_authorizer=False))  # type: ignore[arg-type]
    stage.endpoint.publish("traffic", stage.traffic)
    assert stage.get().status == 200
    # The node has no passwords to check it against.
    assert json.loads(stage.get(authorization=basic("alice", "wrong")).body) == {"principal": "User:ANONYMOUS"}
