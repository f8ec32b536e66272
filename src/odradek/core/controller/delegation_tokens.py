"""Delegation tokens in the metadata log: who may create, renew and expire one, and the removal of expired tokens."""

from dataclasses import replace
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_text
from odradek.base.principal import USER, Principal
from odradek.core.controller.commands import ControllerResult, NewToken, TokenCreated
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.features import IV_3_6_DELEGATION_TOKENS
from odradek.core.metadata.image import DelegationToken
from odradek.core.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from odradek.core.security.delegation_tokens import (
    TokensByHmac,
    is_expired,
    later,
    may_renew,
    new_timestamps,
    renewed_expiry,
    token_hmac,
)

SWEPT_AT_ONCE_MAX: Final = 1000
RENEWERS_LENGTH_MAX: Final = 1 << 20
"""Characters of all renewers. Creating a token needs no ACL, and every node keeps it in memory."""


class DelegationTokens:
    def __init__(self, state: ControllerState) -> None:
        self._state: Final = state
        self._secret: Final = state.config.delegation_token_secret_key or ""
        self._tokens: Final = TokensByHmac(self._secret)
        if self._secret:
            # Computes the HMACs while the controller is built, which does not block its event loop.
            self._tokens.follow(state.image.delegation_tokens)

    def create(self, new: NewToken, now_ms: int) -> ControllerResult[TokenCreated]:
        self._check_enabled()
        if any(renewer.type != USER for renewer in new.renewers):
            raise KafkaError(ErrorCode.invalid_principal_type)
        if sum(len(renewer.name) for renewer in new.renewers) + len(new.renewers) > RENEWERS_LENGTH_MAX:
            raise KafkaError(ErrorCode.invalid_request)
        config = self._state.config
        max_timestamp, expiry = new_timestamps(
            now_ms,
            max_lifetime_ms=config.delegation_token_max_lifetime_ms,
            requested_ms=new.max_lifetime_ms,
            renew_period_ms=config.delegation_token_expiry_time_ms,
        )
        token = DelegationToken(
            owner=str(new.owner),
            requester=str(new.requester),
            renewers=tuple(map(str, new.renewers)),
            issue_timestamp_ms=now_ms,
            max_timestamp_ms=max_timestamp,
            expiration_timestamp_ms=expiry,
        )
        token_id = self._new_id()
        created = TokenCreated(token_id, token, token_hmac(self._secret, token_id))
        return ControllerResult((_record(token_id, token),), created)

    def renew(self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int) -> ControllerResult[int]:
        self._check_enabled()
        token_id, token = self._find(hmac)
        if is_expired(token, now_ms):
            raise KafkaError(ErrorCode.delegation_token_expired)
        if not may_renew(token, principal):
            raise KafkaError(ErrorCode.delegation_token_owner_mismatch)
        expiry = renewed_expiry(
            token, now_ms, requested_ms=period_ms, renew_period_ms=self._state.config.delegation_token_expiry_time_ms
        )
        return _with_expiry(token_id, token, expiry)

    def expire(self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int) -> ControllerResult[int]:
        self._check_enabled()
        token_id, token = self._find(hmac)
        # As in Kafka, checked before the expiry: the reverse of a renewal.
        if not may_renew(token, principal):
            raise KafkaError(ErrorCode.delegation_token_owner_mismatch)
        if period_ms < 0:
            return ControllerResult((RemoveDelegationTokenRecord(token_id=token_id),), now_ms)
        if is_expired(token, now_ms):
            raise KafkaError(ErrorCode.delegation_token_expired)
        return _with_expiry(token_id, token, min(token.max_timestamp_ms, later(now_ms, period_ms)))

    def sweep(self, now_ms: int) -> ControllerResult[bool]:
        """Removes some expired tokens. True: there may be more."""
        records: list[RemoveDelegationTokenRecord] = []
        for token_id, token in self._state.image.delegation_tokens.items():
            if is_expired(token, now_ms):
                records.append(RemoveDelegationTokenRecord(token_id=token_id))
                if len(records) == SWEPT_AT_ONCE_MAX:
                    return ControllerResult(tuple(records), True)
        return ControllerResult(tuple(records), False)

    def _check_enabled(self) -> None:
        if not self._secret:
            raise KafkaError(ErrorCode.delegation_token_auth_disabled)
        if self._state.metadata_version < IV_3_6_DELEGATION_TOKENS:
            raise KafkaError(ErrorCode.unsupported_version)

    def _find(self, hmac: bytes) -> tuple[str, DelegationToken]:
        found = self._tokens.find(self._state.image.delegation_tokens, hmac)
        if found is None:
            raise KafkaError(ErrorCode.delegation_token_not_found)
        return found

    def _new_id(self) -> str:
        while True:
            token_id = uuid_to_text(UUID(bytes=self._state.random.randbytes(16), version=4))
            # A leading '-' would look like a command-line option.
            if not token_id.startswith("-") and token_id not in self._state.image.delegation_tokens:
                return token_id


def _with_expiry(token_id: str, token: DelegationToken, expiry_ms: int) -> ControllerResult[int]:
    changed = replace(token, expiration_timestamp_ms=expiry_ms)
    return ControllerResult((_record(token_id, changed),), expiry_ms)


def _record(token_id: str, token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiration_timestamp_ms,
        token_id=token_id,
    )
