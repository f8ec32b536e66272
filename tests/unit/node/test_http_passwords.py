"""HTTP clients authenticate as the cluster's SCRAM users."""

from dataclasses import replace

import pytest

from odradek.base.principal import Principal
from odradek.core.metadata.image import ScramCredential
from odradek.core.security.scram_credentials import ScramMechanism, credential_of, salted_password
from odradek.node.http_passwords import password_check
from odradek.wire.sasl.scram_server import ScramLookup

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password, b"salt", iterations)
    return credential_of(mechanism, salted, salt=b"salt", iterations=iterations)


def check(credentials: dict[tuple[str, ScramMechanism], ScramCredential], user: str, password: str) -> Principal | None:
    lookup = ScramLookup(lambda mechanism, name: credentials.get((name, mechanism)), lambda *_: None, b"key")
    return password_check(lookup)(user, password)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_password_of_a_scram_user_authenticates(mechanism: ScramMechanism) -> None:
    known = {("alice", mechanism): credential(mechanism, "right", 5000)}
    assert check(known, "alice", "right") == Principal("User", "alice")
    assert check(known, "alice", "wrong") is None
    assert check(known, "alice", "") is None
    assert check(known, "bob", "right") is None


def test_user_may_have_a_password_for_each_mechanism() -> None:
    known = {("alice", SHA_256): credential(SHA_256, "one"), ("alice", SHA_512): credential(SHA_512, "two")}
    assert check(known, "alice", "one") == check(known, "alice", "two") == Principal("User", "alice")
    assert check(known, "alice", "three") is None


def test_credential_with_too_few_iterations_is_not_accepted() -> None:
    assert check({("alice", SHA_256): credential(SHA_256, "right", 4095)}, "alice", "right") is None


def test_empty_stored_key_matches_no_password() -> None:
    empty = replace(credential(SHA_256, "right"), stored_key=b"")
    assert check({("alice", SHA_256): empty}, "alice", "right") is None
