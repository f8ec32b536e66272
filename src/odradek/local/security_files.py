"""The files of a cluster of `odradek up --secure`: authority, key stores, `client.properties`, password of the console.

Nodes authenticate each other with their certificates, which all have the same subject; clients use SCRAM.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.config.properties import parse_properties
from odradek.local.node_files import (
    BROKER_LISTENER,
    CONTROLLER_LISTENER,
    SECURE_CLIENT_LISTENER,
    NodeFiles,
    escape_path,
    with_values,
)
from odradek.local.private_files import write_private
from odradek.text.errors import UserError

if TYPE_CHECKING:
    from odradek.client.security import Sasl, Security

ADMIN: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
_NODE_SUBJECT: Final = "CN=odradek-node"
_PASSWORD_BYTES: Final = 24
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PREAMBLE: Final = """\
# Written by `odradek up --secure`, for Kafka's tools and for --command-config of odradek.
# It contains the password of the administrator: keep it secret.
"""
_TRUST_STORE: Final = "ssl.truststore.location"
_KEY_STORE: Final = "ssl.keystore.location"
_AUDIT_LOG: Final = "audit.log.file"


class SecurityFiles:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir: Final = data_dir
        self.directory: Final = data_dir / "security"
        self.authority: Final = self.directory / "ca.pem"
        self.authority_key: Final = self.directory / "ca.key"
        self.console_password: Final = self.directory / "console-password"
        self.client_properties: Final = data_dir / "client.properties"

    def key_store(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.pem"

    def audit_log(self, node_id: int) -> Path:
        return NodeFiles(self._data_dir, node_id).directory / "audit.log"

    def prepare(self, node_ids: Collection[int], *, is_new: bool) -> None:
        """Create what is missing, and renew certificates that expire soon. Raises UserError."""
        if not is_new and not self.client_properties.exists():
            raise UserError(
                f"{str(self.client_properties)!r} is missing, and with it the administrator's password. Restore the "
                "file, or use --fresh to delete the cluster and create a new one."
            )
        # Imported only here: other starts do not need it.
        from odradek.local.security_certificates import prepare_certificates

        self.directory.mkdir(mode=0o700, exist_ok=True)
        prepare_certificates(
            self.authority, self.authority_key, {self.key_store(one): _NODE_SUBJECT for one in node_ids}
        )
        if not self.console_password.exists():
            write_private(self.console_password, _new_password() + "\n")
        self._write_client_properties()

    def _write_client_properties(self) -> None:
        """Write the file, or only the location of the trust store after the directory was moved."""
        location = {_TRUST_STORE: escape_path(self.authority)}
        if not self.client_properties.exists():
            values = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": MECHANISM,
                "sasl.jaas.config": f'{_LOGIN_MODULE} required username="{ADMIN}" password="{_new_password()}";',
                "ssl.truststore.type": "PEM",
                **location,
            }
            text = _PREAMBLE + "".join(f"{key}={value}\n" for key, value in values.items())
            write_private(self.client_properties, text)
            return
        old = self.client_properties.read_text(encoding="utf-8")
        if _was_moved(old, _TRUST_STORE, self.authority):
            write_private(self.client_properties, with_values(old, location), replace=True)

    def administrator(self) -> "Sasl":
        """The administrator's credentials. Raises UserError."""
        found = self.client_security().sasl
        if found is None:
            raise UserError(f"{self.client_properties} contains no credentials. Restore the file, or use --fresh.")
        return found

    def client_security(self) -> "Security":
        """The settings in client.properties. Raises UserError."""
        # Imported only here: a cluster without --secure needs neither.
        from odradek.client.security_configs import WrongConfig, security_of

        properties, _ = parse_properties(self.client_properties.read_text(encoding="utf-8"))
        try:
            return security_of({one.key: one.value for one in properties})
        except WrongConfig as error:
            raise UserError(f"{self.client_properties}: {error}") from None

    def node_values(self, node_id: int) -> dict[str, str]:
        """The security configs of a node's server.properties."""
        return {
            "listener.security.protocol.map": f"{SECURE_CLIENT_LISTENER}:SASL_SSL,{BROKER_LISTENER}:SSL,"
            f"{CONTROLLER_LISTENER}:SSL",
            "inter.broker.listener.name": BROKER_LISTENER,
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.{SECURE_CLIENT_LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": f"{_LOGIN_MODULE} "
            "required;",
            "ssl.keystore.type": "PEM",
            _KEY_STORE: escape_path(self.key_store(node_id)),
            "ssl.truststore.type": "PEM",
            _TRUST_STORE: escape_path(self.authority),
            **{
                f"listener.name.{name.lower()}.ssl.client.auth": "required"
                for name in (BROKER_LISTENER, CONTROLLER_LISTENER)
            },
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_NODE_SUBJECT};User:{ADMIN}",
            _AUDIT_LOG: escape_path(self.audit_log(node_id)),
            "http.security.protocol": "SSL",
        }

    def moved_values(self, node_id: int, text: str) -> dict[str, str]:
        """The configs to change in a node's server.properties after the data directory was moved."""
        files = {
            _KEY_STORE: self.key_store(node_id),
            _TRUST_STORE: self.authority,
            _AUDIT_LOG: self.audit_log(node_id),
        }
        return {key: escape_path(file) for key, file in files.items() if _was_moved(text, key, file)}

    def delete(self) -> None:
        """Delete all files that this class writes, and no others."""
        self.client_properties.unlink(missing_ok=True)
        if not self.directory.is_dir():
            return
        for file in (self.authority, self.authority_key, self.console_password, *self.directory.glob("node-*.pem")):
            file.unlink(missing_ok=True)
        if not any(self.directory.iterdir()):
            self.directory.rmdir()

    def command_option(self) -> str:
        """The option of odradek commands, to be typed in the current directory."""
        return f" --command-config {shell_path(self.client_properties)}"


def shell_path(file: Path) -> str:
    """The file as typed in the current directory."""
    import shlex

    return shlex.quote(os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file))


def _new_password() -> str:
    import secrets

    return secrets.token_urlsafe(_PASSWORD_BYTES)


def _was_moved(text: str, key: str, file: Path) -> bool:
    """Whether the config names this file in another directory. A file of other names is the operator's choice."""
    properties, _ = parse_properties(text)
    old = next((Path(one.value) for one in properties if one.key == key), file)
    return old != file and old.parts[-2:] == file.parts[-2:]
