import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.security import MECHANISMS, NOTHING, Sasl, Security, Tls
from odradek.client.security_configs import WrongConfig, configs_of, security_of

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
SCRAM_MODULE = f"{PACKAGE}.scram.ScramLoginModule"
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
BODY = "QUJD" * 40


def test_plaintext_without_configs() -> None:
    assert security_of({}) == NOTHING
    # Without effect for this protocol.
    assert security_of({"security.protocol": "plaintext", "sasl.mechanism": "PLAIN"}) == NOTHING


def test_user_and_password_come_from_the_jaas_config() -> None:
    configs = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="anna" password="se=c\\"r;et";',
    }
    found = security_of(configs)
    assert found.tls is None
    assert found.sasl == Sasl(mechanism="PLAIN", username="anna", password='se=c"r;et')


def test_pem_on_one_line_gets_line_breaks() -> None:
    lines = "\n".join(BODY[place : place + 64] for place in range(0, len(BODY), 64))
    given = f"-----BEGIN CERTIFICATE----- {BODY[:100]} {BODY[100:]} -----END CERTIFICATE-----"
    whole = f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nQUJD\n-----END RSA PRIVATE KEY-----"
    found = security_of(
        {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": f"{given} {given}",
            "ssl.keystore.certificate.chain": whole,
            "ssl.keystore.key": key,
            "ssl.key.password": "secret",
        }
    )
    assert found.tls == Tls(authorities=f"{whole} {whole}", own=f"{key}\n{whole}\n", key_password="secret")


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: unknown protocol 'TLS'. Choose from PLAINTEXT, SSL"),
        (
            {"security.protocol": "SASL_SSL"},
            "sasl.mechanism: GSSAPI is not supported. Choose from PLAIN, SCRAM-SHA-256",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: missing. Expected: …PlainLoginModule required",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": 'password="hidden";'},
            "sasl.jaas.config: invalid syntax",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "a", "ssl.truststore.type": "BKS"},
            "ssl.truststore.type: BKS is not supported. Choose from JKS, PKCS12, PEM",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.location": "a"}, "a JKS file needs ssl.keystore.password"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "JKS needs ssl.truststore.location"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x.Mine required;"},
            "cannot load the login module x.Mine; use Kafka's",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{SCRAM_MODULE} required username="hidden" password="hidden";',
            },
            "ScramLoginModule does not log in with PLAIN",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="hidden" password="hidden";',
                "sasl.login.callback.handler.class": "x.Mine",
            },
            "sasl.login.callback.handler.class: cannot load the Java class x.Mine. Remove it.",
        ),
        (OAUTH, f"{TOKEN_URL}: expected the URL of a token endpoint"),
        ({**OAUTH, TOKEN_URL: "https://idp"}, "needs sasl.oauthbearer.client.credentials.client.id and"),
        (
            {**OAUTH, TOKEN_URL: "file:///token", "sasl.oauthbearer.jwt.retriever.class": "x.Mine"},
            "cannot load the Java class x.Mine. Remove it, or use org.apache.kafka",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "hidden"}, "ssl.keystore.key: set both"),
        ({"security.protocol": "SSL", "ssl.keystore.certificate.chain": ""}, "certificate.chain: set both"),
    ],
)
def test_errors_name_the_config_and_contain_no_secret(configs: dict[str, str], said: str) -> None:
    with pytest.raises(WrongConfig) as refused:
        security_of(configs)
    assert said in str(refused.value)
    assert "hidden" not in str(refused.value)


PEM = "-----BEGIN CERTIFICATE-----\nQUJD\nQUJD\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN EC PRIVATE KEY-----\nR0hJ\nR0hJ\n-----END EC PRIVATE KEY-----\n"
TLS = st.builds(
    Tls,
    authorities_file=st.none() | st.just("authorities.pem"),
    authorities=st.none() | st.just(PEM + PEM),
    own_file=st.none() | st.just("own.pem"),
    own=st.none() | st.just(f"{KEY}\n{PEM}\n"),
    key_password=st.none() | st.text(),
    checks_host=st.booleans(),
) | st.builds(
    Tls,
    authorities_file=st.just("authorities.jks"),
    authorities_password=st.none() | st.text(),
    own_file=st.just("own.p12"),
    own_password=st.text(),
)
SCRAM = [name for name in MECHANISMS if name.startswith("SCRAM")]
SASL = (
    st.builds(Sasl, mechanism=st.just("PLAIN"), username=st.text(), password=st.text())
    | st.builds(Sasl, mechanism=st.sampled_from(SCRAM), username=st.text(), password=st.text(), has_token=st.booleans())
    | st.builds(
        Sasl,
        mechanism=st.just("OAUTHBEARER"),
        username=st.text(min_size=1),
        password=st.text(min_size=1),
        token_url=st.just("https://idp/token"),
        scope=st.text(),
    )
    | st.builds(Sasl, mechanism=st.just("OAUTHBEARER"), token_url=st.just("file:///token"))
)


# Not about time.
@settings(deadline=None)
@given(st.builds(Security, tls=st.none() | TLS, sasl=st.none() | SASL))
def test_configs_are_converted_back_and_forth(security: Security) -> None:
    assert security_of(configs_of(security)) == security


@pytest.mark.parametrize(("option", "has_token"), [("true", True), ('"TRUE"', True), ("false", False), ("", False)])
def test_login_with_a_delegation_token(option: str, has_token: bool) -> None:
    token = f" tokenauth={option}" if option else ""
    configs = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="id" password="hmac"{token};',
    }
    assert security_of(configs).sasl == Sasl(
        mechanism="SCRAM-SHA-256", username="id", password="hmac", has_token=has_token
    )


@pytest.mark.parametrize("prefix", ["new", "jaas"])
def test_client_credentials_come_from_the_configs_or_from_the_login_module(prefix: str) -> None:
    configs = {**OAUTH, TOKEN_URL: "https://idp/token"}
    if prefix == "new":
        credentials = "sasl.oauthbearer.client.credentials.client"
        configs |= {f"{credentials}.id": "ann", f"{credentials}.secret": "s", "sasl.oauthbearer.scope": "kafka"}
    else:
        options = 'clientId="ann" clientSecret="s" scope="kafka"'
        configs["sasl.jaas.config"] = configs["sasl.jaas.config"].replace("required", f"required {options}")
    assert security_of(configs).sasl == Sasl(
        mechanism="OAUTHBEARER", username="ann", password="s", token_url="https://idp/token", scope="kafka"
    )
