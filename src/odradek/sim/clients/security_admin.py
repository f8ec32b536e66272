"""An admin client that changes ACLs, users, passwords and quotas at random. What took effect is in the metadata log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.core.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.core.security.scram_credentials import ITERATIONS_MIN, SALT_BYTES, ScramMechanism, salted_password
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.security_requests import NEW_TOPICS, TOPICS, quota_request
from odradek.sim.security_history import SecurityHistory
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema

USERS: Final = ("alice", "bob", "carol")
_MECHANISM: Final = ScramMechanism.SHA_256
_PREFIXES: Final = ("o", "orders", "orders-", "pay", "payments")
_TOPIC_OPERATIONS: Final = (
    *(Operation.ALL, Operation.ALL, Operation.READ, Operation.READ, Operation.WRITE, Operation.WRITE),
    *(Operation.DESCRIBE, Operation.DELETE),
    *(Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALTER_CONFIGS),
)
_CLUSTER_OPERATIONS: Final = (Operation.ALL, Operation.CREATE, Operation.DESCRIBE, Operation.ALTER_CONFIGS)
_ACLS_MAX: Final = 30
_QUOTA_KEYS: Final = (PRODUCER_BYTE_RATE, PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)


class SecurityAdmin:
    def __init__(self, client: ClusterClient, history: SecurityHistory, hosts: Sequence[str]) -> None:
        """`hosts`: the addresses of clients, which some ACLs name."""
        self._client: Final = client
        self._history: Final = history
        self._hosts: Final = tuple(hosts)
        self._acls: Final[list[AccessControlEntry]] = []
        self._quotas: Final[list[tuple[str, dict[str, str | None]]]] = []
        self._passwords = 0
        self._changes: Final = (
            *(self._create_acl,) * 8,
            *(self._delete_acl,) * 6,
            *(self._change_password,) * 3,
            self._delete_user,
            *(self._set_quota,) * 3,
            *(self._remove_quota,) * 3,
        )
        self.is_finishing = False

    async def create_users(self) -> None:
        """Retries until all users exist, each with a new password."""
        for user in USERS:
            while not await self._try(partial(self._set_password, user)):
                await self._client.back_off()

    async def run(self, interval_seconds: float) -> None:
        random = self._client.random
        while not self.is_finishing:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            await self._try(random.choice(self._changes))

    async def _try(self, change: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await change()
        except RequestFailed as failure:
            self._client.note(f"gets no response: {failure}")
            return False

    # ---- ACLs

    async def _create_acl(self) -> bool:
        if len(self._acls) >= _ACLS_MAX:
            return await self._delete_acl()
        entry = self._random_entry()
        chosen = schema(ApiKey.CREATE_ACLS, 3)
        creation = chosen.new(
            "AclCreation",
            resource_type=entry.resource_type,
            resource_name=entry.resource_name,
            resource_pattern_type=entry.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        self._acls.append(entry)
        self._client.note(f"creates {_show(entry)}")
        response = await self._send(chosen, chosen.new("CreateAclsRequest", creations=(creation,)))
        return response.results[0].error_code is ErrorCode.none

    async def _delete_acl(self) -> bool:
        if not self._acls:
            return False
        entry = self._acls.pop(self._client.random.randrange(len(self._acls)))
        chosen = schema(ApiKey.DELETE_ACLS, 3)
        one = chosen.new(
            "DeleteAclsFilter",
            resource_type_filter=entry.resource_type,
            resource_name_filter=entry.resource_name,
            pattern_type_filter=entry.pattern_type,
            principal_filter=entry.principal,
            host_filter=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        self._client.note(f"deletes {_show(entry)}")
        response = await self._send(chosen, chosen.new("DeleteAclsRequest", filters=(one,)))
        return response.filter_results[0].error_code is ErrorCode.none

    def _random_entry(self) -> AccessControlEntry:
        random = self._client.random
        if random.random() < 0.2:
            pattern = ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
            operation = random.choice(_CLUSTER_OPERATIONS)
        else:
            is_prefix = random.random() < 0.4
            name = random.choice(_PREFIXES if is_prefix else (*TOPICS, *TOPICS, *NEW_TOPICS, "*"))
            pattern = ResourceType.TOPIC, name, PatternType.PREFIXED if is_prefix else PatternType.LITERAL
            operation = random.choice(_TOPIC_OPERATIONS)
        return AccessControlEntry(
            *pattern,
            principal=f"User:{random.choice((*USERS, *USERS, '*'))}",
            host="*" if random.random() < 0.8 else random.choice(self._hosts),
            operation=operation,
            permission_type=Permission.ALLOW if random.random() < 0.75 else Permission.DENY,
        )

    # ---- users

    async def _change_password(self) -> bool:
        """Creates a user that was deleted, too."""
        return await self._set_password(self._client.random.choice(USERS))

    async def _set_password(self, user: str) -> bool:
        self._passwords += 1
        password = f"{user} {self._client.name} {self._passwords}"
        salt = self._client.random.randbytes(SALT_BYTES)
        self._history.password_of_salt[salt] = password
        self._history.passwords.setdefault(user, []).append(password)
        chosen = schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
        upsertion = chosen.new(
            "ScramCredentialUpsertion",
            name=user,
            mechanism=int(_MECHANISM),
            iterations=ITERATIONS_MIN,
            salt=salt,
            salted_password=salted_password(_MECHANISM, password, salt, ITERATIONS_MIN),
        )
        self._client.note(f"sets the password of {user} to {password}")
        return await self._alter_users(chosen, upsertions=(upsertion,))

    async def _delete_user(self) -> bool:
        chosen = schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
        user = self._client.random.choice(USERS)
        self._client.note(f"deletes {user}")
        deletion = chosen.new("ScramCredentialDeletion", name=user, mechanism=int(_MECHANISM))
        return await self._alter_users(chosen, deletions=(deletion,))

    async def _alter_users(
        self, chosen: Schema, *, deletions: tuple[Message, ...] = (), upsertions: tuple[Message, ...] = ()
    ) -> bool:
        message = chosen.new("AlterUserScramCredentialsRequest", deletions=deletions, upsertions=upsertions)
        response = await self._send(chosen, message)
        return response.results[0].error_code is ErrorCode.none

    # ---- quotas

    async def _set_quota(self) -> bool:
        random = self._client.random
        user = random.choice((*USERS, None))
        quota = random.choice(_QUOTA_KEYS), {"user": user}
        self._quotas.append(quota)
        return await self._alter_quota(*quota, random.choice((500.0, 1000.0, 3000.0)))

    async def _remove_quota(self) -> bool:
        if not self._quotas:
            return False
        quota = self._quotas.pop(self._client.random.randrange(len(self._quotas)))
        return await self._alter_quota(*quota, None)

    async def _alter_quota(self, key: str, entity: dict[str, str | None], value: float | None) -> bool:
        chosen = schema(ApiKey.ALTER_CLIENT_QUOTAS, 1)
        self._client.note(f"changes {key} of {entity} to {value}")
        response = await self._send(chosen, quota_request(chosen, entity, key, value))
        return response.entries[0].error_code is ErrorCode.none

    async def _send(self, chosen: Schema, message: Message) -> Message:
        client = self._client
        connection = await client.connect_to_any()
        return await client.await_response(connection, connection.send_request(chosen, message))


def _show(entry: AccessControlEntry) -> str:
    permission, operation = Permission(entry.permission_type).name, Operation(entry.operation).name
    pattern = f"{PatternType(entry.pattern_type).name} {ResourceType(entry.resource_type).name} {entry.resource_name}"
    return f"{permission} {operation} of {pattern} for {entry.principal} from {entry.host}"
