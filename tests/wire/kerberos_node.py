"""A node whose clients authenticate with Kerberos."""

import os
from pathlib import Path
from typing import Final

from tests.kerberos_realm import REALM, KerberosRealm
from tests.wire.secured_broker import SecuredBroker

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
RULES: Final = "RULE:[2:$1;$2](.*;admin)s/;admin//,RULE:[1:$1]/L"


class KerberosNode(SecuredBroker):
    """Clients authenticate with GSSAPI as kafka/localhost. User alice may do everything."""

    def __init__(self, directory: Path, realm: KerberosRealm, packages: Path, *, keytab: Path | None = None) -> None:
        """`packages` has the package gssapi."""
        super().__init__(directory)
        self._realm, self._packages = realm, packages
        keys = keytab or realm.keytab("kafka/localhost")
        prefix = "listener.name.clients"
        self.properties = {name: text for name, text in self.properties.items() if not name.startswith(prefix)} | {
            f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}.gssapi.sasl.jaas.config": f'{MODULE} keyTab="{keys}" principal="kafka/localhost@{REALM}";',
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": RULES,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port},CLIENTS://localhost:{self.sasl_port}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
        }

    @property
    def sasl_bootstrap(self) -> str:
        return f"localhost:{self.sasl_port}"

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(self._packages))))
        return {**super().environment(), **self._realm.environment(PYTHONPATH=path)}
