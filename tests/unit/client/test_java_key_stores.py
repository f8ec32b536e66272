"""A client with PKCS12 and JKS: it trusts and proves the same as with PEM."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.client.java_key_stores import InvalidStore, as_pem
from odradek.client.security import Tls
from odradek.host.key_stores.reading import read_key_store, read_trust_store
from odradek.host.tls_contexts import handshake_problem, new_server_context
from tests.unit.host.key_stores.test_key_stores import AUTHORITY, ISSUED, PASSWORD, RULES, as_jks, as_pkcs12, encrypted


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, bytes], str]:
    def write(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize("own", [as_pkcs12(), as_jks(), encrypted(ISSUED)], ids=["pkcs12", "jks", "pem"])
@pytest.mark.parametrize("trusted", [as_pkcs12(None), as_jks(None), AUTHORITY.pem], ids=["pkcs12", "jks", "pem"])
def test_both_sides_authenticate(file: Callable[[str, bytes], str], own: bytes, trusted: bytes) -> None:
    is_pem = own.startswith(b"-----")
    tls = Tls(
        authorities_file=file("trusted", trusted),
        authorities_password=None if trusted == AUTHORITY.pem else PASSWORD,
        own_file=file("own", own),
        own_password=None if is_pem else PASSWORD,
        key_password=PASSWORD if is_pem else None,
        checks_host=False,
    )
    keys = read_key_store(ISSUED.pem, password=None, key_password=None)
    server = new_server_context(RULES, keys, read_trust_store(AUTHORITY.pem, password=None), "required")
    assert handshake_problem(server, tls.context()) is None
    anonymous = Tls(authorities_file=tls.authorities_file, authorities_password=tls.authorities_password)
    context = anonymous.context()
    context.check_hostname = False
    # With TLS 1.3, the client's own handshake ends before the server rejects it.
    assert handshake_problem(server, context) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"


def test_key_with_a_password_of_its_own(file: Callable[[str, bytes], str]) -> None:
    own = file("own.jks", as_jks(key_password="other"))
    assert as_pem(Tls(own_file=own, own_password=PASSWORD, key_password="other")).own is not None


@pytest.mark.parametrize(
    ("data", "password", "said"),
    [
        (as_pkcs12(), "wrong", "the password is wrong"),
        (as_jks(), "wrong", "the password is wrong"),
        (as_jks(None), PASSWORD, "there is no private key"),
        (b"hidden", PASSWORD, "it is neither PEM, PKCS12 nor JKS"),
    ],
)
def test_unusable_stores_name_their_config(
    file: Callable[[str, bytes], str], data: bytes, password: str, said: str
) -> None:
    with pytest.raises(InvalidStore, match=said) as refused:
        as_pem(Tls(own_file=file("own", data), own_password=password))
    assert refused.value.config == "ssl.keystore.location"
    assert "hidden" not in str(refused.value)
