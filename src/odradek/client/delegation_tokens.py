"""Admin operations on delegation tokens: create, renew, expire, list. They require an authenticated connection."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.base.principal import Principal
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.connection import BuildRequest
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

DEFAULT_PERIOD: Final = -1
"""The broker's configured lifetime or renew period."""
AT_ONCE: Final = -1
"""As the period of an expiration: the token is removed."""
# The first version of CreateDelegationToken with an owner.
_OWNER_SINCE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDescription:
    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str | None
    """None: the broker is too old to say."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """Unless the token is renewed."""
    ends_ms: int
    """The end of the maximum lifetime."""


class OwnerNotSupported(Exception):
    """The broker is too old to create tokens for other principals."""


class DelegationTokens:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def create(
        self, *, owner: Principal | None = None, renewers: Sequence[Principal] = (), lifetime_ms: int = DEFAULT_PERIOD
    ) -> TokenDescription:
        """Create a token for the authenticated principal, or for `owner`. Not retried: each attempt creates one."""

        def build(chosen: Schema) -> Message:
            if owner is not None and chosen.version < _OWNER_SINCE:
                raise OwnerNotSupported
            return chosen.new(
                "CreateDelegationTokenRequest",
                owner_principal_type=None if owner is None else owner.type,
                owner_principal_name=None if owner is None else owner.name,
                renewers=tuple(
                    chosen.new("CreatableRenewers", principal_type=one.type, principal_name=one.name)
                    for one in renewers
                ),
                max_lifetime=lifetime_ms,
            )

        response = self._cluster.send_to_controller(ApiKey.CREATE_DELEGATION_TOKEN, build)
        raise_for_error(response, None if owner is None else str(owner))
        return TokenDescription(
            token_id=response.token_id,
            hmac=response.hmac,
            owner=f"{response.principal_type}:{response.principal_name}",
            requester=_requester(response),
            renewers=tuple(map(str, renewers)),
            issued_ms=response.issue_timestamp,
            expires_ms=response.expiry_timestamp,
            ends_ms=response.max_timestamp,
        )

    def renew(self, hmac: bytes, *, period_ms: int = DEFAULT_PERIOD) -> int:
        """Return when the token expires now."""

        def build(chosen: Schema) -> Message:
            return chosen.new("RenewDelegationTokenRequest", hmac=hmac, renew_period=period_ms)

        return self._change("renewing the token", ApiKey.RENEW_DELEGATION_TOKEN, build)

    def expire(self, hmac: bytes, *, period_ms: int = AT_ONCE) -> int:
        """Let the token expire after this time. Return when it expires."""

        def build(chosen: Schema) -> Message:
            return chosen.new("ExpireDelegationTokenRequest", hmac=hmac, expiry_time_period=period_ms)

        return self._change("expiring the token", ApiKey.EXPIRE_DELEGATION_TOKEN, build)

    def list(self, owners: Sequence[Principal] | None = None) -> list[TokenDescription]:
        """The tokens that the authenticated principal may see, or those of some owners, sorted by issue time."""

        def build(chosen: Schema) -> Message:
            named = None
            if owners is not None:
                named = tuple(
                    chosen.new("DescribeDelegationTokenOwner", principal_type=one.type, principal_name=one.name)
                    for one in owners
                )
            return chosen.new("DescribeDelegationTokenRequest", owners=named)

        def attempt() -> list[TokenDescription]:
            response = self._cluster.send_to_any(ApiKey.DESCRIBE_DELEGATION_TOKEN, build)
            raise_for_error(response)
            return sorted(map(_description, response.tokens), key=lambda token: (token.issued_ms, token.token_id))

        return self._cluster.retry("listing tokens", attempt)

    def _change(self, what: str, api_key: int, build: BuildRequest) -> int:
        def attempt() -> int:
            response = self._cluster.send_to_controller(api_key, build)
            raise_for_error(response)
            expiry: int = response.expiry_timestamp
            return expiry

        return self._cluster.retry(what, attempt)


def _description(token: Message) -> TokenDescription:
    return TokenDescription(
        token_id=token.token_id,
        hmac=token.hmac,
        owner=f"{token.principal_type}:{token.principal_name}",
        requester=_requester(token),
        renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in token.renewers),
        issued_ms=token.issue_timestamp,
        expires_ms=token.expiry_timestamp,
        ends_ms=token.max_timestamp,
    )


def _requester(response: Message) -> str | None:
    name = getattr(response, "token_requester_principal_name", None)
    return None if name is None else f"{response.token_requester_principal_type}:{name}"
