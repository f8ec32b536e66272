"""The ssl.* configs of one listener: Kafka's precedence, and which configs exclude each other."""

import pytest

from odradek.config.tls_settings import InvalidTls, TlsSettings, parse_tls_settings

FILE = {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "hunter2"}


def parse(texts: dict[str, str], listener: str = "CLIENTS", protocol: str = "SSL") -> TlsSettings:
    return parse_tls_settings(texts, listener, protocol)


def test_listener_prefix_takes_precedence() -> None:
    own = {
        "listener.name.clients.ssl.keystore.location": "/own.p12",
        "listener.name.clients.ssl.client.auth": "required",
    }
    settings = parse(FILE | own)
    assert settings.key_store is not None
    assert (settings.key_store.location, settings.key_store.password) == ("/own.p12", "hunter2")
    assert settings.client_auth == "required"
    other = parse(FILE | own, "INTERNAL")
    assert other.key_store is not None
    assert (other.key_store.location, other.client_auth) == ("/k.p12", "none")


def test_defaults() -> None:
    settings = parse(FILE)
    assert settings.trust_store is None
    assert settings.checks_host
    assert settings.versions == ("TLSv1.2", "TLSv1.3")
    assert settings.ciphers is None
    assert not settings.allows_dn_changes and not settings.allows_san_changes


def test_secrets_are_not_in_the_repr() -> None:
    inline = {"ssl.keystore.type": "PEM", "ssl.keystore.key": "KEYTEXT", "ssl.keystore.certificate.chain": "CHAINTEXT"}
    for texts in (FILE, inline | {"ssl.key.password": "hunter2"}):
        assert not any(secret in repr(parse(texts)) for secret in ("hunter2", "KEYTEXT"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"ssl.keystore.location": "/k"}, "SSL key store is specified, but key store password is not specified"),
        ({"ssl.keystore.password": "p"}, "SSL key store is not specified, but key store password is specified."),
        ({"ssl.keystore.key": "k"}, "SSL private key can be specified only for PEM, but key store type is JKS"),
        (
            {"ssl.keystore.key": "k", "ssl.keystore.type": "PEM"},
            "SSL private key is specified, but certificate chain is not specified",
        ),
        ({"ssl.keystore.certificate.chain": "c"}, "SSL certificate chain is specified, but private key is not"),
        (
            {
                "ssl.keystore.key": "k",
                "ssl.keystore.certificate.chain": "c",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/k",
            },
            "Both SSL key store location and separate private key are specified.",
        ),
        (FILE | {"ssl.keystore.type": "PEM"}, "SSL key store password cannot be specified with PEM format."),
        (FILE | {"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type: BCFKS is not supported"),
        ({"ssl.truststore.password": "p"}, "SSL trust store is not specified, but trust store password is specified."),
        ({"ssl.truststore.certificates": "c"}, "SSL trust store certs can be specified only for PEM"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol: SSLv3 is not supported"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "ldaps is not supported"),
        ({"ssl.cipher.suites": "SSL_RSA_WITH_RC4_128_MD5"}, "unsupported cipher suite SSL_RSA_WITH_RC4_128_MD5"),
        (
            {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
            "no cipher suite for TLSv1.2",
        ),
    ],
)
def test_invalid_configs(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidTls) as raised:
        parse(texts)
    assert message in str(raised.value)


def test_sasl_ssl_needs_the_prefix_for_client_auth() -> None:
    settings = parse(FILE | {"ssl.client.auth": "required"}, protocol="SASL_SSL")
    assert settings.client_auth == "none"
    assert "ssl.client.auth has no effect" in settings.warnings[0]
    own = {"listener.name.clients.ssl.client.auth": "requested"}
    assert parse(FILE | own, protocol="SASL_SSL").client_auth == "requested"


def test_versions_follow_the_cipher_suites() -> None:
    old, new = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"
    only_old = parse({"ssl.cipher.suites": old})
    assert (only_old.versions, only_old.ciphers) == (("TLSv1.2",), "ECDHE-RSA-AES128-GCM-SHA256")
    only_new = parse({"ssl.cipher.suites": new})
    assert (only_new.versions, only_new.ciphers) == (("TLSv1.3",), None)
    assert "cannot be restricted" in only_new.warnings[0]


def test_empty_algorithm_disables_the_check_of_host_names() -> None:
    assert not parse({"ssl.endpoint.identification.algorithm": ""}).checks_host
    assert parse({"ssl.endpoint.identification.algorithm": "HTTPS"}).checks_host
