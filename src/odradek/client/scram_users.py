"""Admin operations on SCRAM users: list, create, change passwords, delete. A password never leaves the client."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import BuildRequest
from odradek.core.security.scram_credentials import SALT_BYTES, ScramMechanism, find_mechanism, salted_password
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    name: str
    iterations: Mapping[str, int]
    """By mechanism, for each mechanism that the user can authenticate with."""


class ScramUsers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def list(self, names: Sequence[str] | None = None) -> list[ScramUser]:
        """The users with these names, or all, sorted by name. Unknown names are left out."""

        def build(chosen: Schema) -> Message:
            users = None if names is None else tuple(chosen.new("UserName", name=one) for one in dict.fromkeys(names))
            return chosen.new("DescribeUserScramCredentialsRequest", users=users)

        def attempt() -> list[ScramUser]:
            response = self._cluster.send_to_any(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, build)
            raise_for_error(response)
            found = []
            for result in response.results:
                if result.error_code is not ErrorCode.resource_not_found:
                    raise_for_error(result)
                    found.append(_user(result))
            return sorted(found, key=lambda user: user.name)

        return self._cluster.retry("reading SCRAM users", attempt)

    def put(self, name: str, mechanism: ScramMechanism, password: str, *, iterations: int) -> None:
        """Create the user's credential for the mechanism, or replace it."""
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)

        def build(chosen: Schema) -> Message:
            upsertion = chosen.new(
                "ScramCredentialUpsertion",
                name=name,
                mechanism=int(mechanism),
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
            return chosen.new("AlterUserScramCredentialsRequest", deletions=(), upsertions=(upsertion,))

        self._alter(f"changing user {name!r}", build)

    def delete(self, name: str, mechanism: ScramMechanism) -> None:
        """Raises KafkaError(RESOURCE_NOT_FOUND) if the user has no credential for the mechanism."""

        def build(chosen: Schema) -> Message:
            deletion = chosen.new("ScramCredentialDeletion", name=name, mechanism=int(mechanism))
            return chosen.new("AlterUserScramCredentialsRequest", deletions=(deletion,), upsertions=())

        self._alter(f"deleting user {name!r}", build)

    def _alter(self, what: str, build: BuildRequest) -> None:
        def attempt() -> None:
            response = self._cluster.send_to_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, build)
            for result in response.results:
                raise_for_error(result)

        self._cluster.retry(what, attempt)


def _user(result: Message) -> ScramUser:
    iterations = {}
    for credential in result.credential_infos:
        mechanism = find_mechanism(credential.mechanism)
        name = f"mechanism {credential.mechanism}" if mechanism is None else mechanism.text
        iterations[name] = credential.iterations
    return ScramUser(name=result.user, iterations=iterations)
