"""Changes of SCRAM credentials. Errors and messages are those of Apache Kafka 4.3.1."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import RECORDS_MAX, ScramDeletion, ScramUpsertion
from odradek.core.metadata.image import ScramCredential
from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.metadata.snapshot import SnapshotId, decode_snapshot, snapshot_of
from odradek.core.security.scram_credentials import ScramMechanism, credential_of, salted_password
from tests.unit.core.controller.cluster import Cluster

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
TWICE = (ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
SALT = b"0123456789abcdef"

Error = tuple[ErrorCode, str | None]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def upsertion(
    user: str, mechanism: int = SHA_256, *, iterations: int = 4096, salted: bytes = b"salted"
) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, SALT, salted)


def alter(cluster: Cluster, *changes: ScramDeletion | ScramUpsertion) -> dict[str, Error | None]:
    deletions = [one for one in changes if isinstance(one, ScramDeletion)]
    upsertions = [one for one in changes if isinstance(one, ScramUpsertion)]
    results = cluster.take(cluster.controller.alter_scram_credentials(deletions, upsertions))
    return {user: None if error is None else (error.code, error.message) for user, error in results.items()}


def test_keys_are_derived_from_the_salted_password(cluster: Cluster) -> None:
    salted = salted_password(SHA_512, "secret", SALT, 8192)
    assert alter(cluster, upsertion("alice", SHA_512, iterations=8192, salted=salted)) == {"alice": None}
    expected = credential_of(SHA_512, salted, salt=SALT, iterations=8192)
    assert dict(cluster.image.scram_credentials) == {("alice", SHA_512): expected}


def test_user_may_have_a_credential_per_mechanism(cluster: Cluster) -> None:
    alter(cluster, upsertion("alice", SHA_256))
    alter(cluster, upsertion("alice", SHA_512))
    assert set(cluster.image.scram_credentials) == {("alice", 1), ("alice", 2)}
    assert alter(cluster, ScramDeletion("alice", SHA_256)) == {"alice": None}
    assert set(cluster.image.scram_credentials) == {("alice", 2)}


def test_upsertion_replaces_the_password(cluster: Cluster) -> None:
    alter(cluster, upsertion("alice", salted=b"old"))
    alter(cluster, upsertion("alice", salted=b"new", iterations=16384))
    (credential,) = cluster.image.scram_credentials.values()
    assert credential == credential_of(SHA_256, b"new", salt=SALT, iterations=16384)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (upsertion(""), (ErrorCode.unacceptable_credential, "Username must not be empty")),
        (ScramDeletion("", SHA_256), (ErrorCode.unacceptable_credential, "Username must not be empty")),
        (upsertion("u", 0), (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")),
        (upsertion("u", 3), (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")),
        (ScramDeletion("u", -1), (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")),
        (upsertion("u", iterations=4095), (ErrorCode.unacceptable_credential, "Too few iterations")),
        (upsertion("u", iterations=16385), (ErrorCode.unacceptable_credential, "Too many iterations")),
        (upsertion("u", salted=b""), (ErrorCode.unknown_server_error, None)),
        (
            ScramDeletion("u", SHA_256),
            (ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"),
        ),
    ],
)
def test_invalid_change_is_rejected(cluster: Cluster, change: ScramDeletion | ScramUpsertion, expected: Error) -> None:
    assert alter(cluster, change) == {change.user: expected}
    assert not cluster.image.scram_credentials


def test_limits_of_iterations_are_accepted(cluster: Cluster) -> None:
    assert alter(cluster, upsertion("low", iterations=4096), upsertion("high", iterations=16384)) == {
        "low": None,
        "high": None,
    }


def test_deletion_of_another_mechanism_is_not_found(cluster: Cluster) -> None:
    alter(cluster, upsertion("alice", SHA_256))
    result = alter(cluster, ScramDeletion("alice", SHA_512))
    assert result["alice"] == (
        ErrorCode.resource_not_found,
        "Attempt to delete a user credential that does not exist",
    )


@pytest.mark.parametrize("other", [SHA_256, SHA_512])
def test_user_is_changed_once_per_request(cluster: Cluster, other: int) -> None:
    alter(cluster, upsertion("alice", SHA_256, salted=b"old"), upsertion("alicia", SHA_256))
    before = cluster.image.scram_credentials
    assert alter(cluster, ScramDeletion("alice", SHA_256), upsertion("alice", other))["alice"] == TWICE
    assert alter(cluster, upsertion("alice", SHA_256), upsertion("alice", other))["alice"] == TWICE
    assert alter(cluster, ScramDeletion("alice", SHA_256), ScramDeletion("alice", SHA_256))["alice"] == TWICE
    assert dict(cluster.image.scram_credentials) == dict(before)


def test_first_error_of_a_user_is_kept(cluster: Cluster) -> None:
    result = alter(cluster, upsertion("alice", iterations=1), upsertion("alice"), upsertion("alice"))
    assert result == {"alice": (ErrorCode.unacceptable_credential, "Too few iterations")}


def test_error_of_one_user_does_not_fail_the_others(cluster: Cluster) -> None:
    result = alter(cluster, upsertion("alice"), upsertion("bob", iterations=1), upsertion("carol"))
    assert [result["alice"], result["carol"]] == [None, None]
    assert {user for user, _ in cluster.image.scram_credentials} == {"alice", "carol"}


def test_old_metadata_version_does_not_support_scram() -> None:
    cluster = Cluster(metadata_version=10)
    assert alter(cluster, upsertion("alice")) == {
        "alice": (ErrorCode.unsupported_version, "The current metadata.version does not support SCRAM")
    }
    assert alter(Cluster(metadata_version=11), upsertion("alice")) == {"alice": None}


def test_too_many_changes_are_rejected_as_a_whole(cluster: Cluster) -> None:
    changes = [upsertion(f"u{number}") for number in range(RECORDS_MAX + 1)]
    with pytest.raises(KafkaError) as raised:
        cluster.controller.alter_scram_credentials((), changes)
    assert raised.value.code is ErrorCode.policy_violation


def test_snapshot_keeps_scram_credentials(cluster: Cluster) -> None:
    alter(cluster, upsertion("alice", SHA_256), upsertion("bob", SHA_512))
    image = cluster.image
    snapshot = snapshot_of(image, now_ms=1)
    assert dict(decode_snapshot(snapshot).image(SnapshotId(1, 1)).scram_credentials) == dict(image.scram_credentials)


def test_secrets_are_not_shown() -> None:
    secret = b"tops3cret"
    credential = ScramCredential(secret, secret, secret, 4096)
    record = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=secret, stored_key=secret, server_key=secret, iterations=4096
    )
    for shown in (upsertion("alice", salted=secret), credential, record):
        assert "tops3cret" not in repr(shown)
        assert "tops3cret" not in str(shown)
