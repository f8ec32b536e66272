"""SCRAM credentials: which changes of a request are valid, and the keys that the metadata log keeps of a password."""

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.controller.commands import RECORDS_MAX, ControllerResult, ScramDeletion, ScramUpsertion
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.features import IV_3_5_SCRAM
from odradek.core.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from odradek.core.security.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
    find_mechanism,
)

Change = ScramDeletion | ScramUpsertion

_TWICE: Final = "A user credential cannot be altered twice in the same request"


class ScramUsers:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> ControllerResult[Mapping[str, KafkaError | None]]:
        """A user may have one change, even of different mechanisms. The valid changes take effect together."""
        valid: dict[str, Change] = {}
        errors: dict[str, KafkaError] = {}
        changes: list[Change] = [*deletions, *upsertions]
        for change in changes:
            if change.user in errors:
                continue
            if valid.pop(change.user, None) is not None:
                errors[change.user] = KafkaError(ErrorCode.duplicate_resource, _TWICE)
                continue
            try:
                self._check(change)
            except KafkaError as error:
                errors[change.user] = error
            else:
                valid[change.user] = change
        if len(valid) > RECORDS_MAX:
            # Checked before the keys are derived.
            raise KafkaError(ErrorCode.policy_violation, "Unable to perform excessively large batch operation.")
        records = BoundedRecords(_record(change) for change in valid.values())
        return ControllerResult(tuple(records), {**dict.fromkeys(valid), **errors})

    def _check(self, change: Change) -> None:
        if self._state.metadata_version < IV_3_5_SCRAM:
            raise KafkaError(ErrorCode.unsupported_version, "The current metadata.version does not support SCRAM")
        if not change.user:
            raise KafkaError(ErrorCode.unacceptable_credential, "Username must not be empty")
        mechanism = find_mechanism(change.mechanism)
        if mechanism is None:
            raise KafkaError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
        if isinstance(change, ScramUpsertion):
            _check_upsertion(change)
        elif (change.user, mechanism) not in self._state.image.scram_credentials:
            raise KafkaError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")


def _check_upsertion(change: ScramUpsertion) -> None:
    if change.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.unacceptable_credential, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.unacceptable_credential, "Too many iterations")
    if not change.salted_password:
        # As in Kafka, where no key can be derived from it.
        raise KafkaError(ErrorCode.unknown_server_error)


def _record(change: Change) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    credential = credential_of(
        ScramMechanism(change.mechanism), change.salted_password, salt=change.salt, iterations=change.iterations
    )
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
