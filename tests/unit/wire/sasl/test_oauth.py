"""OAUTHBEARER: messages, the failure exchange, and the verification of tokens."""

import base64
import contextlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from odradek.base.principal import Principal
from odradek.wire.sasl.exchange import AuthenticationFailed, SaslError
from odradek.wire.sasl.oauth import EXTENSIONS_MAX, InvalidToken, OAuthClient, OAuthServer, VerifiedToken
from odradek.wire.sasl.tokens import TokenRules, UnknownKey, parse_keys, verify_token, verify_unsecured_token

NOW = 1_700_000_000
RULES = TokenRules("https://issuer", ("kafka", "other"), 30, "sub", "scope")
CLAIMS = {"iss": RULES.issuer, "aud": "kafka", "sub": "alice", "iat": NOW, "exp": NOW + 60, "scope": ["a", "b"]}
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
FOREIGN = ECKey.generate_key("P-256", {"kid": "ec"})


def key_set(*keys: Any) -> bytes:
    return json.dumps(KeySet(list(keys)).as_dict(private=False)).encode()


KEYS = parse_keys(key_set(RSA, EC, ED))


def sign(claims: dict[str, Any], key: Any = EC, algorithm: str = "ES256", **header: Any) -> str:
    return jwt.encode({"alg": algorithm, "kid": key.kid, **header}, claims, key, algorithms=[algorithm])


def unsecured(claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
    parts = (json.dumps(part).encode() for part in (header or {"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def verify(token: str) -> VerifiedToken:
    return verify_token(token, KEYS, RULES, NOW)


# Tokens


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize(
    ("key", "algorithm"), [(EC, "ES256"), (RSA, "RS256"), (RSA, "PS512"), (ED, "Ed25519"), (ED, "EdDSA")]
)
def test_signed_token_is_verified(key: Any, algorithm: str) -> None:
    assert verify(sign(CLAIMS, key, algorithm)) == VerifiedToken("alice", (NOW + 60) * 1000)


def test_token_without_a_key_id_is_verified_with_any_key() -> None:
    assert verify(jwt.encode({"alg": "ES256"}, CLAIMS, EC)).subject == "alice"


def test_header_may_have_further_parameters() -> None:
    registered = sign(CLAIMS, EC, "ES256", typ="at+jwt")
    assert verify(registered).subject == "alice"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW - 31}, "expired"),
        ({"exp": None}, "no valid claim exp"),
        ({"iat": None}, "no valid claim iat"),
        ({"exp": "soon"}, "no valid claim exp"),
        ({"exp": True}, "no valid claim exp"),
        ({"exp": 1e300}, "no valid claim exp"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iss": "https://other"}, "wrong issuer"),
        ({"iss": None}, "wrong issuer"),
        ({"aud": "elsewhere"}, "wrong audience"),
        ({"aud": None}, "wrong audience"),
        ({"aud": {"kafka": 1}}, "wrong audience"),
        ({"sub": None}, "no claim sub"),
        ({"sub": "  "}, "no claim sub"),
        ({"sub": 7}, "no claim sub"),
        ({"scope": [1]}, "invalid scope"),
    ],
)
def test_token_with_invalid_claims_is_rejected(changes: dict[str, Any], reason: str) -> None:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    with pytest.raises(InvalidToken, match=reason):
        verify(sign(claims))


def test_clocks_may_differ() -> None:
    assert verify(sign(CLAIMS | {"exp": NOW - 29, "nbf": NOW + 30})).subject == "alice"


def test_one_of_several_audiences_is_enough() -> None:
    assert verify(sign(CLAIMS | {"aud": ["x", "other"]})).subject == "alice"


def test_token_with_an_audience_needs_an_expected_one() -> None:
    rules = RULES._replace(audiences=(), issuer=None)
    with pytest.raises(InvalidToken, match="wrong audience"):
        verify_token(sign(CLAIMS), KEYS, rules, NOW)
    claims = {name: value for name, value in CLAIMS.items() if name not in ("aud", "iss")}
    assert verify_token(sign(claims), KEYS, rules, NOW).subject == "alice"


def test_token_signed_with_another_key_is_rejected() -> None:
    with pytest.raises(InvalidToken, match="signature"):
        verify(sign(CLAIMS, FOREIGN))
    with pytest.raises(UnknownKey):
        verify(sign(CLAIMS, ECKey.generate_key("P-256", {"kid": "new"})))


def test_unsecured_token_is_rejected() -> None:
    for header in ({"alg": "none"}, {"alg": "None"}, {"alg": "none", "kid": "ec"}, {}):
        with pytest.raises(InvalidToken, match="algorithm is not allowed"):
            verify(unsecured(CLAIMS, header))


def test_public_key_is_no_secret_of_an_hmac() -> None:
    signed = unsecured(CLAIMS, {"alg": "HS256", "kid": "ec"}).removesuffix(".")
    signature = hmac.digest(EC.as_pem(private=False), signed.encode(), "sha256")
    with pytest.raises(InvalidToken, match="algorithm is not allowed"):
        verify(f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}")


def test_symmetric_keys_of_a_key_set_are_ignored() -> None:
    with pytest.raises(ValueError, match="no public key"):
        parse_keys(json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "x"}]}).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b'{"keys": 1}', b'{"keys": [1, {"kty": "EC"}]}', b"\xff"])
def test_invalid_key_sets_are_rejected(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_keys(text)


@given(st.text(max_size=80))
def test_any_text_is_no_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        verify(text)


def test_unsecured_token_has_the_same_claims() -> None:
    assert verify_unsecured_token(unsecured(CLAIMS), RULES, NOW).subject == "alice"
    with pytest.raises(InvalidToken, match="expired"):
        verify_unsecured_token(unsecured(CLAIMS | {"exp": NOW - 60}), RULES, NOW)
    with pytest.raises(InvalidToken, match="not an unsecured one"):
        verify_unsecured_token(sign(CLAIMS), RULES, NOW)


# The exchange


def test_client_logs_in_with_its_token() -> None:
    client, server = OAuthClient(lambda: sign(CLAIMS)), OAuthServer(verify)
    message = client.next()
    assert message is not None
    assert server.blocks(message)
    assert client.next(server.next(message)) is None
    assert server.principal == Principal("User", "alice")
    assert server.expires_at_ms == (NOW + 60) * 1000


def test_rejected_token_gets_a_status_before_the_failure() -> None:
    client, server = OAuthClient(lambda: "a.b.c"), OAuthServer(verify)
    message = client.next()
    assert message is not None
    status = server.next(message)
    assert status == b'{"status":"invalid_token"}'
    assert not server.is_complete
    assert client.next(status) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        server.next(b"\x01")
    with pytest.raises(SaslError, match="rejected the token"):
        client.next(b"")


def test_token_after_a_rejected_one_fails() -> None:
    server = OAuthServer(verify)
    server.next(b"n,,\x01auth=Bearer a.b.c\x01\x01")
    with pytest.raises(SaslError):
        server.next(f"n,,\x01auth=Bearer {sign(CLAIMS)}\x01\x01".encode())


def test_authorization_id_must_be_the_subject() -> None:
    def message(name: str) -> bytes:
        return f"n,a={name},\x01host=x\x01auth=bearer {sign(CLAIMS)}\x01\x01".encode()

    OAuthServer(verify).next(message("alice"))
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(bob\)"):
        OAuthServer(verify).next(message("bob"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"y,,\x01a=b\x01\x01",
    ],
)
def test_malformed_messages_are_rejected(message: bytes) -> None:
    with pytest.raises(SaslError):
        OAuthServer(verify).next(message)


def no_token() -> Callable[[str], VerifiedToken]:
    def reject(token: str) -> VerifiedToken:
        raise InvalidToken("no token is valid")

    return reject


@given(st.binary(max_size=200))
def test_random_messages_never_authenticate(message: bytes) -> None:
    server = OAuthServer(no_token())
    with contextlib.suppress(SaslError):
        server.next(message)
    assert not server.is_complete


def test_number_of_extensions_is_limited() -> None:
    many = b"a=b\x01" * EXTENSIONS_MAX
    with pytest.raises(SaslError, match="invalid first"):
        OAuthServer(verify).next(b"n,,\x01auth=Bearer a.b.c\x01" + many + b"\x01")
