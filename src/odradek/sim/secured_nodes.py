"""The security configs of simulated nodes: SASL on all listeners, and the authorizer of Kafka.

Nodes and the infrastructure's admin client log in with PLAIN, which needs no metadata; users log in with SCRAM.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.sim.clients.login import Login

CLIENT_LISTENER: Final = "SASL_PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"
ADMIN: Final = "admin"
SCRAM: Final = "SCRAM-SHA-256"
_PLAIN: Final = "PLAIN"
_MODULES: Final = "org.apache.kafka.common.security"


def secured_properties(node: str, nodes: Iterable[str]) -> Mapping[str, str]:
    """Without `listeners`. Every node has a principal of its own."""
    users = [*nodes, ADMIN]
    known = " ".join(f'user_{one}="{_password(one)}"' for one in users)
    own = f'username="{node}" password="{_password(node)}"'
    plain = f"{_MODULES}.plain.PlainLoginModule required {own} {known};"
    return {
        "listener.security.protocol.map": f"{CLIENT_LISTENER}:SASL_PLAINTEXT,{CONTROLLER_LISTENER}:SASL_PLAINTEXT",
        "inter.broker.listener.name": CLIENT_LISTENER,
        "sasl.enabled.mechanisms": f"{_PLAIN},{SCRAM}",
        "sasl.mechanism.inter.broker.protocol": _PLAIN,
        "sasl.mechanism.controller.protocol": _PLAIN,
        f"listener.name.{CLIENT_LISTENER.lower()}.plain.sasl.jaas.config": plain,
        f"listener.name.{CONTROLLER_LISTENER.lower()}.plain.sasl.jaas.config": plain,
        f"listener.name.{CONTROLLER_LISTENER.lower()}.sasl.enabled.mechanisms": _PLAIN,
        f"listener.name.{CLIENT_LISTENER.lower()}.scram-sha-256.sasl.jaas.config": (
            f"{_MODULES}.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{one}" for one in users),
        "delegation.token.secret.key": "the same on all nodes",
    }


def admin_login() -> Login:
    return Login(_PLAIN, ADMIN, _password(ADMIN))


def user_login(user: str, password: str) -> Login:
    return Login(SCRAM, user, password)


def token_login(token_id: str, hmac: bytes) -> Login:
    return Login(SCRAM, token_id, base64.b64encode(hmac).decode(), has_token=True)


def _password(name: str) -> str:
    return f"{name}-secret"
