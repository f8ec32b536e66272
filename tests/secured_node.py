"""A node with an authorizer: User:client logs in with SASL/PLAIN, and an administrator changes its permissions.

The administrator is User:ANONYMOUS on the PLAINTEXT listener, a super user. The listeners and configs mean the same to
Odradek and to Apache Kafka.
"""

import time
from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess, free_ports
from tests.raw_wire import RawConnection
from tests.unit.fake_access import Grant

USER, PASSWORD = "client", "client-secret"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ANY, LITERAL, ALLOW = 1, 3, 3
GRANT_TIMEOUT_S = 30.0
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecuredNode:
    """Adds a SASL listener and an authorizer to a node that has not been started."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        (self.port,) = free_ports(1)
        listeners = {"PLAINTEXT": node.port, "CLIENT": self.port, "CONTROLLER": node.controller_port}
        node.properties |= KEEPS_OLD_RECORDS | {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            # Members of the fixtures stay without heartbeats.
            "group.consumer.max.session.timeout.ms": "600000",
            "group.consumer.session.timeout.ms": "600000",
        }

    def connect(self) -> RawConnection:
        """A connection of User:client."""
        return log_in(RawConnection(self.port), USER, PASSWORD)


def log_in(connection: RawConnection, user: str, password: str) -> RawConnection:
    response = connection.request(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert response.error_code is ErrorCode.none, response
    response = connection.request(SASL_AUTHENTICATE, 2, {"auth_bytes": f"\0{user}\0{password}".encode()})
    assert response.error_code is ErrorCode.none, response
    return connection


class Permissions:
    """The permissions of User:client."""

    def __init__(self, node: NodeProcess) -> None:
        self._admin: Final = RawConnection(node.port)
        self._granted: frozenset[Grant] = frozenset()

    def close(self) -> None:
        self._admin.close()

    def grant(self, grants: Iterable[Grant]) -> None:
        """Exactly these, as soon as the broker's authorizer has them."""
        wanted = frozenset(grants)
        if gone := self._granted - wanted:
            filters = [
                {
                    "resource_type_filter": kind,
                    "resource_name_filter": name,
                    "pattern_type_filter": LITERAL,
                    "principal_filter": f"User:{USER}",
                    "host_filter": "*",
                    "operation": operation,
                    "permission_type": ALLOW,
                }
                for operation, kind, name in gone
            ]
            response = self._admin.request(DELETE_ACLS, 3, {"filters": filters})
            assert all(one.error_code is ErrorCode.none for one in response.filter_results), response
        if new := wanted - self._granted:
            creations = [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "resource_pattern_type": LITERAL,
                    "principal": f"User:{USER}",
                    "host": "*",
                    "operation": operation,
                    "permission_type": ALLOW,
                }
                for operation, kind, name in new
            ]
            response = self._admin.request(CREATE_ACLS, 3, {"creations": creations})
            assert all(one.error_code is ErrorCode.none for one in response.results), response
        self._granted = wanted
        deadline = time.monotonic() + GRANT_TIMEOUT_S
        while self._acls() != wanted:
            assert time.monotonic() < deadline, "the broker does not apply the ACLs"
            time.sleep(0.01)

    def _acls(self) -> set[tuple[int, int, str]]:
        fields = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
        response = self._admin.request(DESCRIBE_ACLS, 3, fields)
        assert response.error_code is ErrorCode.none, response
        return {
            (acl.operation, resource.resource_type, resource.resource_name)
            for resource in response.resources
            for acl in resource.acls
        }
