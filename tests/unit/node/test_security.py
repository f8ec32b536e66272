"""A node's security from its configs: listeners, peers, renewed files, and certificates that expire soon."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import ANONYMOUS, Principal
from odradek.config.dynamic import overlay
from odradek.config.node_config import NodeConfig
from odradek.host.clock import SystemClock
from odradek.node.security import NodeSecurity, SecurityError
from tests.certificates import Authority, Issued
from tests.unit.broker.fake_broker import InlineExecutor

AUTHORITY = Authority()


class Stage:
    def __init__(self, directory: Path, issued: Issued | None = None, more: Mapping[str, str] | None = None) -> None:
        self.key_store = (issued or AUTHORITY.issue("node")).save(directory / "node.pem")
        trusted = directory / "ca.pem"
        trusted.write_bytes(AUTHORITY.pem)
        texts = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "CLIENTS://localhost:9092,INTERNAL://localhost:9094,CONTROLLER://localhost:9093",
            "listener.security.protocol.map": "CLIENTS:SSL,INTERNAL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            **(more or {}),
        }
        text = "".join(f"{name}={value}\n" for name, value in texts.items())
        self.config = NodeConfig.load(text, "server.properties")
        self.security = NodeSecurity(self.config, clock=SystemClock(), random=Random(7), executor=InlineExecutor())

    def load(self) -> "Stage":
        asyncio.run(self.security.load())
        return self


def test_listeners_and_peers(tmp_path: Path) -> None:
    stage = Stage(tmp_path).load()
    clients, internal, controller = (stage.security.listener_security(one) for one in stage.config.listeners)
    assert (clients.protocol, controller.protocol, controller.tls) == ("SSL", "PLAINTEXT", None)
    assert clients.tls is not None and internal.tls is not None
    assert clients.tls() is clients.tls() is not internal.tls()
    assert stage.security.inter_broker.tls is not None
    assert stage.security.to_controllers.tls is None


def test_principals(tmp_path: Path) -> None:
    stage = Stage(tmp_path, more={"ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/U"}).load()
    security = stage.security.listener_security(stage.config.listeners[0])
    assert security.principal_of_certificate(None) == ANONYMOUS
    assert security.principal_of_certificate(AUTHORITY.issue("alice").der) == Principal("User", "ALICE")
    with pytest.raises(ValueError, match="No rules apply to CN=1"):
        security.principal_of_certificate(AUTHORITY.issue("1").der)


def test_renewed_file_replaces_the_context(tmp_path: Path) -> None:
    stage = Stage(tmp_path).load()
    security = stage.security.listener_security(stage.config.listeners[0])
    assert security.tls is not None
    before = security.tls()
    asyncio.run(stage.security.refresh())
    assert security.tls() is before
    AUTHORITY.issue("node").save(stage.key_store)
    asyncio.run(stage.security.refresh())
    assert security.tls() is not before


def test_same_content_in_a_new_file_changes_nothing(tmp_path: Path) -> None:
    issued = AUTHORITY.issue("node")
    stage = Stage(tmp_path, issued).load()
    security = stage.security.listener_security(stage.config.listeners[0])
    assert security.tls is not None
    before = security.tls()
    issued.save(stage.key_store)
    asyncio.run(stage.security.refresh())
    assert security.tls() is before


@pytest.mark.parametrize(("days", "warning"), [(10.5, "expires in 10 days"), (29.9, "expires in 29 days")])
def test_certificate_that_expires_soon_is_reported_once_a_day(
    tmp_path: Path, days: float, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, AUTHORITY.issue("node", days=days)).load()
    asyncio.run(stage.security.refresh())
    assert [text for text in caplog.messages if warning in text and "CLIENTS" in text and "renew" in text]
    assert sum("CLIENTS" in text for text in caplog.messages) == 1
    assert {*stage.security.expiries_ms()} == {"CLIENTS", "INTERNAL"}


def test_certificate_that_expires_late_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    Stage(tmp_path, AUTHORITY.issue("node", days=31)).load()
    assert caplog.messages == []


def test_expired_inter_broker_certificate_is_rejected_at_start(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"Listener INTERNAL: .* \(certificate has expired\)"):
        Stage(tmp_path, AUTHORITY.issue("node", days=-1)).load()


def test_dynamic_configs_of_a_listener_are_checked(tmp_path: Path) -> None:
    stage = Stage(tmp_path).load()
    other = AUTHORITY.issue("other").save(tmp_path / "other.pem")
    dynamic = {"listener.name.clients.ssl.keystore.location": str(other)}
    with pytest.raises(KafkaError, match="Keystore DistinguishedName does not match") as raised:
        asyncio.run(stage.security.check(overlay(stage.config, dynamic, {})))
    assert raised.value.code is ErrorCode.invalid_request
    allowed = Stage(tmp_path, more={"ssl.allow.dn.changes": "true"}).load()
    asyncio.run(allowed.security.check(overlay(allowed.config, dynamic, {})))
