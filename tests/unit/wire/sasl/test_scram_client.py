"""The example of RFC 7677, and invalid server messages."""

import pytest

from odradek.wire.sasl.exchange import SaslError
from odradek.wire.sasl.scram_client import ScramClient

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    user = client()
    assert user.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert user.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    user.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(SaslError, match="could not prove that it knows the password"):
        user.check(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(SaslError, match="invalid-proof"):
        user.check(b"e=invalid-proof")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"hello", "invalid SCRAM message"),
        (b"r=%b,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % NONCE.encode(), "wrong nonce"),
        (SERVER_FIRST.replace(b"4096", b"1"), "too few to protect the password"),
    ],
)
def test_invalid_server_messages_are_rejected(message: bytes, expected: str) -> None:
    with pytest.raises(SaslError, match=expected):
        client().final(message)


def test_user_names_are_escaped() -> None:
    assert ScramClient("SCRAM-SHA-512", "a,b=c", "", "x").first() == b"n,,n=a=2Cb=3Dc,r=x"
