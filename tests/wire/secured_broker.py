"""A broker with a second listener, on which clients authenticate with SASL."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from tests.kafka.apache_kafka import ApacheKafka
from tests.node_process import NodeProcess, free_ports
from tests.odradek_process import OdradekProcess

_PACKAGE = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_PACKAGE}.scram.ScramLoginModule"
OAUTH_MODULE = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PASSWORD = "se cr$et"
SCRAM_OPTIONS = tuple(
    word for bits in (256, 512) for word in ("--add-scram", f'SCRAM-SHA-{bits}=[name="alice",password="{PASSWORD}"]')
)
TOKEN_VALIDATOR = f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
ISSUER, AUDIENCE = "https://issuer.example", "kafka"


class Secured(NodeProcess):
    """User alice has the same password for every mechanism, or a token."""

    def secure(self, protocol: str, properties: Mapping[str, str]) -> None:
        (self.sasl_port,) = free_ports(1)
        self.key = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})
        self.directory.mkdir(parents=True, exist_ok=True)
        self.keys_file = self.directory / "keys.json"
        self.keys_file.write_text(json.dumps(KeySet([self.key]).as_dict(private=False)))
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self.port}",
            f"CLIENTS://127.0.0.1:{self.sasl_port}",
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
        )
        prefix = "listener.name.clients"
        self.properties |= {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:{protocol}",
            f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}" user_bob="b";',
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": TOKEN_VALIDATOR,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.keys_file.as_uri(),
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            "group.initial.rebalance.delay.ms": "0",
            **properties,
        }

    @property
    def sasl_bootstrap(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"

    def token(self, **changes: Any) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, **changes}
        return jwt.encode({"alg": "ES256", "kid": "one"}, claims, self.key)


class SecuredBroker(OdradekProcess, Secured):
    def __init__(
        self, directory: Path, *, protocol: str = "SASL_PLAINTEXT", properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory)
        (self.http_port,) = free_ports(1)
        self.secure(protocol, {"http.address": str(self.http_port), **(properties or {})})

    def format_command(self) -> list[str]:
        return [*super().format_command(), *SCRAM_OPTIONS]


class SecuredKafka(ApacheKafka, Secured):
    def __init__(self, libs: Path, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(libs, directory)
        self.secure("SASL_PLAINTEXT", properties or {})

    def start_command(self) -> list[str]:
        command = super().start_command()
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys_file.as_uri()}"
        return [command[0], allowed, *command[1:]]

    def format_command(self) -> list[str]:
        return [*super().format_command(), *SCRAM_OPTIONS]
