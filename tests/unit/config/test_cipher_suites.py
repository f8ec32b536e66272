"""Names of cipher suites: IANA's, as Java has them, to OpenSSL's."""

import ssl

import pytest

from odradek.config.cipher_suites import TLS13, openssl_name, parse_cipher_suites


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_DHE_DSS_WITH_AES_128_GCM_SHA256", "DHE-DSS-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8", "ECDHE-ECDSA-AES256-CCM8"),
    ],
)
def test_openssl_knows_the_mapped_name(iana: str, openssl: str) -> None:
    assert openssl_name(iana) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl + ":@SECLEVEL=0")
    assert openssl in {one["name"] for one in context.get_ciphers()}


@pytest.mark.parametrize(
    "iana",
    [
        "SSL_RSA_WITH_RC4_128_MD5",
        "TLS_RSA_WITH_NULL_SHA256",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_KRB5_WITH_DES_CBC_SHA",
        "ECDHE-RSA-AES128-SHA",
        "TLS_RSA_WITH_AES_128",
        "",
    ],
)
def test_other_names_are_unknown(iana: str) -> None:
    assert openssl_name(iana) is None


def test_suites_of_both_versions() -> None:
    names = ("TLS_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "X")
    suites = parse_cipher_suites(names)
    assert suites == (("AES128-SHA",), ("TLS_AES_256_GCM_SHA384",), ("X",))
    assert parse_cipher_suites(tuple(TLS13)).tls12 == ()
