"""SASL configs of a node: what is missing or wrong is named, in one line and without secrets."""

from typing import Any

import pytest

from odradek.config.node_config import ConfigErrors, NodeConfig
from odradek.config.sasl_config import KerberosConfig, OAuthConfig, SaslConfigError, read_login, read_sasl

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN = f'{PLAIN} required username="node" password="hidden-text" user_node="hidden-text";'
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": LOGIN,
}
OF_BROKER, OF_CONTROLLER = (f"listener.name.{name}.plain.sasl.jaas.config" for name in ("sasl_plaintext", "controller"))


def load(changes: dict[str, str | None]) -> NodeConfig:
    given = {name: text for name, text in (BASE | changes).items() if text is not None}
    return NodeConfig.load("".join(f"{name}={text}\n" for name, text in given.items()), "server.properties")


def test_sasl_between_nodes_and_for_clients_is_accepted() -> None:
    config = load({})
    assert config.warnings == ()
    assert config.security_protocols["CONTROLLER"] == "SASL_PLAINTEXT"
    assert "hidden-text" not in repr(read_sasl(config.values, "SASL_PLAINTEXT"))
    login = read_login(config.values, "CONTROLLER", "PLAIN", "sasl.mechanism.controller.protocol")
    assert (login.username, login.password) == ("node", "hidden-text")
    assert "hidden-text" not in repr(login)


def test_scram_between_controllers_is_warned_about() -> None:
    config = load(
        {
            "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
            "listener.name.controller.scram-sha-256.sasl.jaas.config": (
                f'{SCRAM} required username="node" password="hidden-text";'
            ),
            OF_CONTROLLER: None,
        }
    )
    (warning,) = config.warnings
    assert "sasl.mechanism.controller.protocol=SCRAM-SHA-256: if all controllers stop, none can log in" in warning
    assert "hidden-text" not in warning


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({OF_BROKER: None}, f"{OF_BROKER}: missing; add it with a login module for PLAIN"),
        ({OF_CONTROLLER: None}, f"{OF_CONTROLLER}: missing"),
        ({OF_BROKER: f'{PLAIN} required user_a="hidden-text";'}, f"{OF_BROKER}: no username"),
        ({OF_BROKER: f"{SCRAM} required;"}, "ScramLoginModule does not log in with PLAIN"),
        ({OF_BROKER: "com.example.Mine required;"}, "cannot load the login module com.example.Mine"),
        ({OF_BROKER: LOGIN[:-1]}, "does not end with a semicolon"),
        ({"sasl.enabled.mechanisms": "MD5"}, "sasl.enabled.mechanisms: MD5 is not supported; use PLAIN"),
        (
            {"sasl.mechanism.inter.broker.protocol": None},
            "sasl.mechanism.inter.broker.protocol: GSSAPI is not in sasl.enabled.mechanisms of listener SASL_PLAINTEXT",
        ),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "SCRAM-SHA-256 is not in sasl.enabled.mechanisms of listener CONTROLLER",
        ),
        (
            {"connection.failed.authentication.delay.ms": "600000"},
            "connection.failed.authentication.delay.ms must be less than connections.max.idle.ms",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "com.example.Handler"},
            "sasl.server.callback.handler.class: cannot load the Java class com.example.Handler",
        ),
        (
            {"listener.name.controller.plain.sasl.login.callback.handler.class": "com.example.Login"},
            "sasl.login.callback.handler.class: cannot load the Java class com.example.Login for PLAIN",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.login.class": "com.example.Login"},
            "sasl.login.class: cannot load the Java class com.example.Login for PLAIN; remove the line, or use org",
        ),
        (
            {"sasl.client.callback.handler.class": "com.example.Client"},
            "sasl.client.callback.handler.class: cannot load the Java class com.example.Client for PLAIN",
        ),
        ({"listener.name.sasl_plaintext.connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms"),
    ],
)
def test_problems_are_named(changes: dict[str, str | None], problem: str) -> None:
    with pytest.raises(ConfigErrors) as failure:
        load(changes)
    (text,) = failure.value.errors
    assert problem in text
    assert "\n" not in text
    assert "hidden-text" not in text


def test_broker_needs_a_login_to_controllers_without_their_listener() -> None:
    changes: dict[str, Any] = {
        "process.roles": "broker",
        "listeners": "SASL_PLAINTEXT://:9092",
        "controller.quorum.voters": "2@localhost:9093",
    }
    assert load(changes).is_broker
    with pytest.raises(ConfigErrors, match=f"{OF_CONTROLLER}: missing"):
        load({**changes, OF_CONTROLLER: None})


def test_login_without_a_prefix_has_no_effect() -> None:
    (warning,) = load({"sasl.jaas.config": LOGIN}).warnings
    assert "no effect without the prefix listener.name.LISTENER.MECHANISM" in warning
    assert "hidden-text" not in warning


def test_listener_and_mechanism_override_the_session_limit() -> None:
    texts = BASE | {
        "connections.max.reauth.ms": "1",
        "listener.name.controller.connections.max.reauth.ms": "2",
        "listener.name.controller.plain.connections.max.reauth.ms": "3",
    }
    assert read_sasl(texts, "SASL_PLAINTEXT").mechanisms["PLAIN"].reauthentication_ms_max == 1
    assert read_sasl(texts, "CONTROLLER").mechanisms["PLAIN"].reauthentication_ms_max == 3


# OAUTHBEARER

PREFIX = "listener.name.sasl_plaintext.oauthbearer"
TOKENS = BASE | {
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}.sasl.jaas.config": f"{OAUTH} required;",
}
URL = "sasl.oauthbearer.jwks.endpoint.url"


def oauth_of(changes: dict[str, str]) -> OAuthConfig:
    found = read_sasl(TOKENS | changes, "SASL_PLAINTEXT").mechanisms["OAUTHBEARER"].oauth
    assert found is not None
    return found


def test_tokens_are_verified_with_the_keys_of_a_url() -> None:
    found = oauth_of({URL: "https://issuer/keys", f"{PREFIX}.sasl.oauthbearer.expected.audience": "a,b"})
    assert (found.jwks_url, found.audiences, found.issuer) == ("https://issuer/keys", ("a", "b"), None)
    assert (found.skew_seconds, found.subject_claim, found.scope_claim) == (30, "sub", "scope")


def test_unsecured_tokens_must_be_enabled_by_name() -> None:
    with pytest.raises(SaslConfigError, match=f"{URL}: missing"):
        oauth_of({})
    enable = "sasl.oauthbearer.unsecured.tokens.enable"
    assert oauth_of({enable: "true"}).jwks_url is None
    with pytest.raises(SaslConfigError, match="set either this"):
        oauth_of({enable: "true", URL: "https://issuer/keys"})
    with pytest.raises(SaslConfigError, match="https, http or file"):
        oauth_of({URL: "ldap://issuer/keys"})


def test_own_token_comes_from_a_file() -> None:
    key = "sasl.oauthbearer.token.endpoint.url"
    login = read_login(TOKENS | {key: "file:///run/token"}, "SASL_PLAINTEXT", "OAUTHBEARER", "x")
    assert login.token_url == "file:///run/token"
    with pytest.raises(SaslConfigError, match=f"{key}: expected a file URL"):
        read_login(TOKENS | {key: "https://issuer/token"}, "SASL_PLAINTEXT", "OAUTHBEARER", "x")


KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/etc/k" principal="kafka/a@EXAMPLE"'


def kerberos_of(login: str, **changes: str) -> KerberosConfig:
    texts = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.x.gssapi.sasl.jaas.config": f"{KERBEROS} {login};",
        **{f"sasl.kerberos.{name.replace('_', '.')}": text for name, text in changes.items()},
    }
    found = read_sasl(texts, "X").mechanisms["GSSAPI"].kerberos
    assert found is not None
    return found


def test_kerberos() -> None:
    assert kerberos_of(KEYTAB, service_name="kafka") == KerberosConfig("kafka/a@EXAMPLE", "/etc/k", ("DEFAULT",))
    rules = "RULE:[1:$1@$0](.*@OTHER)s/@.*//,DEFAULT"
    found = kerberos_of('useKeyTab=true principal="*" serviceName=kafka', principal_to_local_rules=rules)
    assert found == KerberosConfig(None, None, tuple(rules.split(",")))


@pytest.mark.parametrize(
    ("login", "service", "problem"),
    [
        (KEYTAB, "", "sasl.kerberos.service.name: missing"),
        (f"{KEYTAB} serviceName=other", "kafka", "has another serviceName"),
        ("useTicketCache=true", "kafka", "a node logs in with a keytab"),
    ],
)
def test_problems_with_kerberos_are_named(login: str, service: str, problem: str) -> None:
    with pytest.raises(SaslConfigError, match=problem):
        kerberos_of(login, service_name=service)


def test_nodes_do_not_authenticate_to_each_other_with_kerberos() -> None:
    with pytest.raises(SaslConfigError, match="key: GSSAPI is not supported; use PLAIN"):
        read_login({}, "X", "GSSAPI", "key")
