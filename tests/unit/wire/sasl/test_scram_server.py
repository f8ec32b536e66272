"""SCRAM, server side: the examples of RFC 5802's successors, hostile messages, and secrecy about users."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.principal import Principal
from odradek.core.metadata.image import ScramCredential
from odradek.core.security.scram_credentials import ScramMechanism, credential_of, salted_password
from odradek.wire.sasl.exchange import AuthenticationFailed, SaslError
from odradek.wire.sasl.scram_client import ScramClient
from odradek.wire.sasl.scram_messages import MESSAGE_BYTES_MAX
from odradek.wire.sasl.scram_server import ScramLookup, ScramServer, TokenLogin

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def credential(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt=salt, iterations=iterations)


RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
USERS = {
    (SHA_256, "user"): credential(SHA_256, "pencil", RFC_SALT),
    (SHA_512, "a,b=c"): credential(SHA_512, "pen", b"salt" * 8),
    (SHA_256, "weak"): credential(SHA_256, "x", b"salt", 4095),
}
TOKENS = {"id-1": TokenLogin(credential(SHA_256, "hmac", b"token"), Principal("User", "owner"), 12_345)}
LOOKUP = ScramLookup(
    lambda mechanism, name: USERS.get((mechanism, name)), lambda mechanism, name: TOKENS.get(name), b"key"
)


def server(nonce: str = "server", mechanism: ScramMechanism = SHA_256) -> ScramServer:
    return ScramServer(mechanism, LOOKUP, nonce)


def test_the_example_of_rfc_7677() -> None:
    one = server("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert one.next(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert not one.is_complete
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert one.next(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert one.is_complete
    assert one.principal == Principal("User", "user")


def log_in(client: ScramClient, one: ScramServer) -> None:
    challenge = b""
    while (message := client.next(challenge)) is not None:
        challenge = one.next(message)


def test_client_and_server_agree_on_escaped_names_and_sha_512() -> None:
    one = server(mechanism=SHA_512)
    log_in(ScramClient("SCRAM-SHA-512", "a,b=c", "pen", "client"), one)
    assert one.principal == Principal("User", "a,b=c")
    assert one.expires_at_ms is None


def test_delegation_token_logs_in_as_its_owner() -> None:
    one = server()
    client = ScramClient("SCRAM-SHA-256", "id-1", "hmac", "client", has_token=True)
    assert one.blocks(client.first())
    log_in(client, one)
    assert one.principal == Principal("User", "owner", token_authenticated=True)
    assert one.expires_at_ms == 12_345


def test_token_id_is_no_user_and_a_user_is_no_token() -> None:
    for name, has_token in (("id-1", False), ("user", True)):
        password = "pencil" if has_token else "hmac"
        with pytest.raises(SaslError, match="wrong user name or password"):
            log_in(ScramClient("SCRAM-SHA-256", name, password, "client", has_token=has_token), server())


def test_unknown_user_gets_a_stable_salt_and_fails_as_a_wrong_password() -> None:
    first = b"n,,n=nobody,r=client"
    assert server().next(first) == server().next(first)
    assert server().next(first) != server().next(first.replace(b"nobody", b"nobody2"))
    texts = set()
    for name in ("nobody", "user"):
        with pytest.raises(SaslError) as failure:
            log_in(ScramClient("SCRAM-SHA-256", name, "wrong", "client"), server())
        texts.add((type(failure.value), str(failure.value)))
    assert len(texts) == 1


def test_recorded_final_message_fails_with_a_new_server_nonce() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", "client")
    first = client.first()
    recorded = client.final(server("server-1").next(first))
    again = server("server-2")
    again.next(first)
    with pytest.raises(SaslError, match="wrong nonce"):
        again.next(recorded)
    with pytest.raises(SaslError, match="over"):
        again.next(recorded)


@pytest.mark.parametrize("changed", ["r=client,", "r=clientserverx,", "r=server,"])
def test_final_nonce_must_be_the_one_that_was_sent(changed: str) -> None:
    client, one = ScramClient("SCRAM-SHA-256", "user", "pencil", "client"), server()
    final = client.final(one.next(client.first())).decode()
    with pytest.raises(SaslError, match="wrong nonce"):
        one.next(final.replace("r=clientserver,", changed).encode())


def test_channel_binding_must_repeat_the_header() -> None:
    client, one = ScramClient("SCRAM-SHA-256", "user", "pencil", "client"), server()
    final = client.final(one.next(client.first()))
    with pytest.raises(SaslError, match="channel binding"):
        one.next(final.replace(b"c=biws", b"c=eSws"))


def test_foreign_authorization_id_is_rejected() -> None:
    with pytest.raises(AuthenticationFailed, match="authorization id that is different from username"):
        server().next(b"n,a=root,n=user,r=client")
    assert server().next(b"n,a=user,n=user,r=client")


def test_credential_with_few_iterations_is_rejected() -> None:
    with pytest.raises(SaslError, match="4095 iterations"):
        server().next(b"n,,n=weak,r=client")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=client",
        b"p=tls-unique,,n=user,r=client",
        b"n,,m=x,n=user,r=client",
        b"n,,n=user",
        b"n,,n=us=er,r=client",
        b"n,,n=us\xc3\xb6r,r=client",
        b"n,,n=,r=client",
        b"n,,n=user,r=",
        b"\xff\xfe",
        b"n,,n=user,r=" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_malformed_first_messages_are_rejected(message: bytes) -> None:
    with pytest.raises(SaslError, match="invalid first SCRAM message"):
        server().next(message)


@given(st.binary(max_size=200), st.booleans())
def test_random_messages_never_authenticate(noise: bytes, is_final: bool) -> None:
    one = server()
    if is_final:
        one.next(b"n,,n=user,r=client")
    with pytest.raises(SaslError):
        one.next(noise)
    assert not one.is_complete


@given(st.data())
def test_mutated_final_messages_never_authenticate(data: st.DataObject) -> None:
    client, one = ScramClient("SCRAM-SHA-256", "user", "pencil", "client"), server()
    final = bytearray(client.final(one.next(client.first())))
    place = data.draw(st.integers(0, len(final) - 1))
    final[place] ^= data.draw(st.integers(1, 255))
    if base64_equal(bytes(final), client, one):
        return
    with pytest.raises(SaslError):
        one.next(bytes(final))


def base64_equal(final: bytes, client: ScramClient, one: ScramServer) -> bool:
    """The last character of base64 has unused bits: a change there may leave the proof as it was."""
    return final[:-2] == client.final(b"r=clientserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")[:-2]
