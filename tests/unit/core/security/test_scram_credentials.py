"""The keys that the metadata log keeps of a SCRAM password."""

from base64 import b64decode

from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.security.scram_credentials import (
    ScramMechanism,
    credential_of,
    find_mechanism,
    find_mechanism_named,
    salted_password,
)


def test_keys_are_those_of_rfc_7677() -> None:
    # The example of RFC 7677: the proof there verifies against this stored key, its signature is by this server key.
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password(ScramMechanism.SHA_256, "pencil", salt, 4096)
    credential = credential_of(ScramMechanism.SHA_256, salted, salt=salt, iterations=4096)
    assert credential.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert credential.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
    assert (credential.salt, credential.iterations) == (salt, 4096)


def test_keys_of_sha_512_have_64_bytes() -> None:
    salted = salted_password(ScramMechanism.SHA_512, "pencil", b"salt", 4096)
    credential = credential_of(ScramMechanism.SHA_512, salted, salt=b"salt", iterations=4096)
    assert (len(salted), len(credential.stored_key), len(credential.server_key)) == (64, 64, 64)


def test_keys_are_not_shown() -> None:
    salted = salted_password(ScramMechanism.SHA_256, "pencil", b"salt", 4096)
    credential = credential_of(ScramMechanism.SHA_256, salted, salt=b"a salt", iterations=4096)
    record = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"a salt", stored_key=b"a key", server_key=b"a key", iterations=4096
    )
    assert repr(credential) == "ScramCredential([hidden])"
    assert repr(record) == "UserScramCredentialRecord(name='alice', mechanism=1, [hidden])"


def test_mechanisms_have_kafkas_names_and_codes() -> None:
    assert [(one.value, one.text) for one in ScramMechanism] == [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")]
    assert find_mechanism(2) is find_mechanism_named("SCRAM-SHA-512") is ScramMechanism.SHA_512
    assert find_mechanism(0) is find_mechanism(3) is find_mechanism_named("PLAIN") is None
