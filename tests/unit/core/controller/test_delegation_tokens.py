"""Delegation tokens of the active controller. Errors are those of Apache Kafka 4.3.1."""

from collections.abc import Callable
from random import Random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import Principal
from odradek.config.node_config import NodeConfig
from odradek.core.controller.commands import ControllerResult, NewToken, TokenCreated
from odradek.core.controller.controller import Controller
from odradek.core.controller.delegation_tokens import RENEWERS_LENGTH_MAX, SWEPT_AT_ONCE_MAX
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from odradek.core.metadata.snapshot import SnapshotId, decode_snapshot, snapshot_of
from odradek.core.security.delegation_tokens import token_hmac
from tests.unit.core.controller.cluster import CLUSTER_ID, PROPERTIES, Cluster

SECRET = "a secret of the cluster"
CONFIG = NodeConfig.load(f"{PROPERTIES}delegation.token.secret.key={SECRET}\n", "test")
HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_700_000_000_000
INT64_MAX = 2**63 - 1
ALICE, BOB, CAROL, DAVE = (Principal("User", name) for name in ("alice", "bob", "carol", "dave"))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(delegation_token_secret_key=SECRET)


def create(
    cluster: Cluster,
    *,
    requester: Principal = ALICE,
    owner: Principal = ALICE,
    renewers: tuple[Principal, ...] = (),
    max_lifetime_ms: int = -1,
    now_ms: int = NOW,
) -> TokenCreated:
    token = NewToken(requester, owner, renewers, max_lifetime_ms)
    return cluster.take(cluster.controller.create_delegation_token(token, now_ms))


def expiry_of(cluster: Cluster, created: TokenCreated) -> int:
    return cluster.image.delegation_tokens[created.token_id].expiration_timestamp_ms


def code_of(command: Callable[[], ControllerResult[object]]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        command()
    return raised.value.code


def test_token_is_kept_without_its_hmac(cluster: Cluster) -> None:
    created = create(cluster, requester=BOB, owner=ALICE, renewers=(CAROL, DAVE))
    token = cluster.image.delegation_tokens[created.token_id]
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:bob", ("User:carol", "User:dave"))
    assert token.issue_timestamp_ms == NOW
    assert token.expiration_timestamp_ms == NOW + DAY
    assert token.max_timestamp_ms == NOW + 7 * DAY
    assert created.hmac == token_hmac(SECRET, created.token_id)
    assert len(created.token_id) == 22
    assert not created.token_id.startswith("-")


def test_lifetime_is_limited_by_the_config_and_the_request() -> None:
    cluster = Cluster(
        delegation_token_secret_key=SECRET,
        delegation_token_max_lifetime_ms="1000",
        delegation_token_expiry_time_ms="600",
    )
    for requested, lifetime in ((-1, 1000), (0, 1000), (5000, 1000), (700, 700)):
        token = create(cluster, max_lifetime_ms=requested).token
        assert token.max_timestamp_ms == NOW + lifetime
        assert token.expiration_timestamp_ms == NOW + 600
    assert create(cluster, max_lifetime_ms=200).token.expiration_timestamp_ms == NOW + 200


def test_lifetime_does_not_overflow() -> None:
    forever = str(INT64_MAX)
    cluster = Cluster(
        delegation_token_secret_key=SECRET,
        delegation_token_max_lifetime_ms=forever,
        delegation_token_expiry_time_ms=forever,
    )
    created = create(cluster)
    assert (created.token.max_timestamp_ms, created.token.expiration_timestamp_ms) == (INT64_MAX, INT64_MAX)
    renewed = cluster.take(cluster.controller.renew_delegation_token(ALICE, created.hmac, INT64_MAX, NOW))
    assert renewed == INT64_MAX


def test_renewers_must_be_users(cluster: Cluster) -> None:
    token = NewToken(ALICE, ALICE, (BOB, Principal("Group", "admins")), -1)
    assert code_of(lambda: cluster.controller.create_delegation_token(token, NOW)) is ErrorCode.invalid_principal_type


def test_renewers_are_limited(cluster: Cluster) -> None:
    renewers = (Principal("User", "a" * 30_000),) * (RENEWERS_LENGTH_MAX // 30_000 + 1)
    token = NewToken(ALICE, ALICE, renewers, -1)
    assert code_of(lambda: cluster.controller.create_delegation_token(token, NOW)) is ErrorCode.invalid_request


@pytest.mark.parametrize("principal", [ALICE, CAROL, ALICE._replace(token_authenticated=True)])
def test_owner_and_renewers_may_renew(cluster: Cluster, principal: Principal) -> None:
    created = create(cluster, requester=BOB, renewers=(CAROL,))
    later = NOW + HOUR
    expiry = cluster.take(cluster.controller.renew_delegation_token(principal, created.hmac, -1, later))
    assert expiry == expiry_of(cluster, created) == later + DAY


def test_renewal_changes_nothing_else(cluster: Cluster) -> None:
    created = create(cluster, requester=BOB, renewers=(CAROL,))
    result = cluster.controller.renew_delegation_token(ALICE, created.hmac, HOUR, NOW)
    assert result.records == (
        DelegationTokenRecord(
            owner="User:alice",
            requester="User:bob",
            renewers=("User:carol",),
            issue_timestamp=NOW,
            max_timestamp=NOW + 7 * DAY,
            expiration_timestamp=NOW + HOUR,
            token_id=created.token_id,
        ),
    )


def test_renewal_ends_with_the_maximum_lifetime(cluster: Cluster) -> None:
    created = create(cluster, max_lifetime_ms=HOUR)
    expiry = cluster.take(cluster.controller.renew_delegation_token(ALICE, created.hmac, 2 * HOUR, NOW))
    assert expiry == NOW + HOUR


def test_errors_of_a_renewal_in_kafkas_order(cluster: Cluster) -> None:
    created = create(cluster)
    renew = cluster.controller.renew_delegation_token
    assert code_of(lambda: renew(ALICE, b"unknown", -1, NOW)) is ErrorCode.delegation_token_not_found
    assert code_of(lambda: renew(BOB, created.hmac, -1, NOW + 2 * DAY)) is ErrorCode.delegation_token_expired
    assert code_of(lambda: renew(BOB, created.hmac, -1, NOW)) is ErrorCode.delegation_token_owner_mismatch


def test_requester_may_not_renew_or_expire(cluster: Cluster) -> None:
    created = create(cluster, requester=BOB, owner=ALICE)
    mismatch = ErrorCode.delegation_token_owner_mismatch
    assert code_of(lambda: cluster.controller.renew_delegation_token(BOB, created.hmac, -1, NOW)) is mismatch
    assert code_of(lambda: cluster.controller.expire_delegation_token(BOB, created.hmac, -1, NOW)) is mismatch


def test_expiry_may_be_brought_forward_and_put_off(cluster: Cluster) -> None:
    created = create(cluster)
    for period, expected in ((HOUR, HOUR), (2 * DAY, 2 * DAY), (30 * DAY, 7 * DAY), (0, 0)):
        expiry = cluster.take(cluster.controller.expire_delegation_token(ALICE, created.hmac, period, NOW))
        assert expiry == expiry_of(cluster, created) == NOW + expected


def test_negative_period_removes_the_token_even_if_it_is_expired(cluster: Cluster) -> None:
    created = create(cluster, renewers=(CAROL,))
    later = NOW + 30 * DAY
    assert cluster.take(cluster.controller.expire_delegation_token(CAROL, created.hmac, -1, later)) == later
    assert not cluster.image.delegation_tokens
    not_found = code_of(lambda: cluster.controller.expire_delegation_token(CAROL, created.hmac, -1, later))
    assert not_found is ErrorCode.delegation_token_not_found


def test_errors_of_an_expiration_in_kafkas_order(cluster: Cluster) -> None:
    created = create(cluster)
    expire = cluster.controller.expire_delegation_token
    assert code_of(lambda: expire(BOB, created.hmac, 0, NOW + 2 * DAY)) is ErrorCode.delegation_token_owner_mismatch
    assert code_of(lambda: expire(ALICE, created.hmac, 0, NOW + 2 * DAY)) is ErrorCode.delegation_token_expired


@pytest.mark.parametrize("settings", [{}, {"delegation_token_secret_key": ""}])
def test_tokens_are_disabled_without_a_secret(settings: dict[str, str]) -> None:
    controller = Cluster(**settings).controller
    disabled = ErrorCode.delegation_token_auth_disabled
    token = NewToken(ALICE, ALICE, (Principal("Group", "admins"),), -1)
    assert code_of(lambda: controller.create_delegation_token(token, NOW)) is disabled
    assert code_of(lambda: controller.renew_delegation_token(ALICE, b"", -1, NOW)) is disabled
    assert code_of(lambda: controller.expire_delegation_token(ALICE, b"", -1, NOW)) is disabled


def test_old_metadata_version_does_not_support_tokens() -> None:
    old = Cluster(metadata_version=13, delegation_token_secret_key=SECRET).controller
    token = NewToken(ALICE, ALICE, (), -1)
    assert code_of(lambda: old.create_delegation_token(token, NOW)) is ErrorCode.unsupported_version
    assert code_of(lambda: old.renew_delegation_token(ALICE, b"", -1, NOW)) is ErrorCode.unsupported_version
    create(Cluster(metadata_version=14, delegation_token_secret_key=SECRET))


def test_sweep_removes_expired_tokens(cluster: Cluster) -> None:
    first, second = create(cluster), create(cluster, now_ms=NOW + HOUR)
    assert cluster.take(cluster.controller.sweep_delegation_tokens(NOW + DAY)) is False
    assert set(cluster.image.delegation_tokens) == {first.token_id, second.token_id}
    assert cluster.take(cluster.controller.sweep_delegation_tokens(NOW + DAY + 1)) is False
    assert set(cluster.image.delegation_tokens) == {second.token_id}


def test_sweep_removes_many_tokens_in_parts(cluster: Cluster) -> None:
    for _ in range(SWEPT_AT_ONCE_MAX + 1):
        create(cluster)
    assert cluster.take(cluster.controller.sweep_delegation_tokens(NOW + 2 * DAY)) is True
    assert len(cluster.image.delegation_tokens) == 1
    assert cluster.take(cluster.controller.sweep_delegation_tokens(NOW + 2 * DAY)) is False
    assert not cluster.image.delegation_tokens


def test_snapshot_keeps_tokens(cluster: Cluster) -> None:
    create(cluster, requester=BOB, renewers=(CAROL,))
    create(cluster)
    assert dict(from_snapshot(cluster).delegation_tokens) == dict(cluster.image.delegation_tokens)


def test_next_controller_renews_and_sweeps_the_tokens_of_a_snapshot(cluster: Cluster) -> None:
    created = create(cluster)
    next_controller = Controller(CONFIG, CLUSTER_ID, Random(8), from_snapshot(cluster))
    assert next_controller.renew_delegation_token(ALICE, created.hmac, HOUR, NOW).response == NOW + HOUR
    (record,) = next_controller.sweep_delegation_tokens(NOW + 8 * DAY).records
    assert record == RemoveDelegationTokenRecord(token_id=created.token_id)


def from_snapshot(cluster: Cluster) -> ClusterImage:
    return decode_snapshot(snapshot_of(cluster.image, now_ms=1)).image(SnapshotId(100, 1))


def test_hmac_is_not_shown(cluster: Cluster) -> None:
    created = create(cluster)
    assert repr(created.hmac)[2:-1] not in repr(created)
    assert "hidden" in repr(created)
