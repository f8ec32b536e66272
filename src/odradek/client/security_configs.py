"""Converts Kafka's client configs for TLS and SASL. Pure.

Error messages never contain a value that may be secret.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from odradek.client.security import MECHANISMS, Sasl, Security, Tls
from odradek.config.jaas import JaasEntry, JaasError, parse_entries, parse_login
from odradek.config.jaas_file import CLIENT_CONTEXT, LoginFile
from odradek.wire.sasl.exchange import OAUTHBEARER, PLAIN

PROTOCOL: Final = "security.protocol"
_JAAS: Final = "sasl.jaas.config"

_PROTOCOLS: Final = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_PACKAGE: Final = "org.apache.kafka.common.security"
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_OAUTH_LOGIN_HANDLERS: Final = (
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""The second is the older name of the first."""
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS: Final = tuple(
    f"{_PACKAGE}.oauthbearer.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")
)
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS: Final = "sasl.oauthbearer.client.credentials."
_PEM: Final = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)
_PEM_LINE: Final = 64
_KEY: Final = "PRIVATE KEY"


class WrongConfig(ValueError):
    """The message starts with the name of the config and says what to write."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


def security_of(configs: Mapping[str, str], login_file: LoginFile | None = None) -> Security:
    """Parse the configs. Raises WrongConfig. Files are not read.

    Without `sasl.jaas.config`, the context KafkaClient of the JAAS file applies.
    """
    protocol = configs.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise WrongConfig(PROTOCOL, f"unknown protocol {protocol!r}. Choose from {', '.join(_PROTOCOLS)}.")
    has_tls, has_sasl = _PROTOCOLS[protocol]
    return Security(tls=_tls(configs) if has_tls else None, sasl=_sasl(configs, login_file) if has_sasl else None)


def _tls(configs: Mapping[str, str]) -> Tls:
    passwords = {store: _store_password(configs, store) for store in ("truststore", "keystore")}
    chain, key = configs.get("ssl.keystore.certificate.chain"), configs.get("ssl.keystore.key")
    if (chain is None) != (key is None):
        given = "ssl.keystore.key" if chain is None else "ssl.keystore.certificate.chain"
        raise WrongConfig(given, "set both ssl.keystore.certificate.chain and ssl.keystore.key.")
    authorities = configs.get("ssl.truststore.certificates")
    return Tls(
        authorities_file=configs.get("ssl.truststore.location"),
        authorities_password=passwords["truststore"],
        authorities=None if authorities is None else _in_lines(authorities),
        own_file=configs.get("ssl.keystore.location"),
        own_password=passwords["keystore"],
        own=None if chain is None or key is None else f"{_in_lines(key)}\n{_in_lines(chain)}\n",
        key_password=configs.get("ssl.key.password"),
        checks_host=configs.get("ssl.endpoint.identification.algorithm", "https") != "",
    )


def _store_password(configs: Mapping[str, str], store: str) -> str | None:
    """Of a Java key store. PEM has none."""
    location = f"ssl.{store}.location"
    kind = configs.get(f"ssl.{store}.type", "PEM" if location not in configs else "JKS")
    if kind.upper() not in _STORE_TYPES:
        raise WrongConfig(f"ssl.{store}.type", f"{kind} is not supported. Choose from {', '.join(_STORE_TYPES)}.")
    if kind.upper() == "PEM":
        return None
    if location not in configs:
        raise WrongConfig(f"ssl.{store}.type", f"{kind} needs {location}. Set the type to PEM for PEM in a property.")
    password = configs.get(f"ssl.{store}.password")
    if password is None and store == "keystore":
        raise WrongConfig(location, f"a {kind} file needs ssl.keystore.password. For PEM, set ssl.keystore.type=PEM.")
    return password


def _sasl(configs: Mapping[str, str], login_file: LoginFile | None) -> Sasl:
    mechanism = configs.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise WrongConfig("sasl.mechanism", f"{mechanism} is not supported. Choose from {', '.join(MECHANISMS)}.")
    login = _login(configs, mechanism, login_file)
    for name in ("sasl.login.class", "sasl.client.callback.handler.class"):
        _check_class(configs, name, ())
    if mechanism == OAUTHBEARER:
        return _oauth(configs, login.options)
    _check_class(configs, _LOGIN_HANDLER, ())
    has_token = mechanism != PLAIN and login.options.get("tokenauth", "").lower() == "true"
    return Sasl(
        mechanism=mechanism,
        username=login.options["username"],
        password=login.options["password"],
        has_token=has_token,
    )


def _login(configs: Mapping[str, str], mechanism: str, login_file: LoginFile | None) -> JaasEntry:
    text = configs.get(_JAAS)
    try:
        if text is None and login_file is not None:
            login = login_file.find((CLIENT_CONTEXT,), mechanism)
        else:
            login = parse_login(text or "", mechanism) if _has_entries(text or "") else None
    except JaasError as error:
        raise WrongConfig(_JAAS, f"{error}. {_expected(mechanism)}") from None
    if login is None:
        problem = "invalid syntax" if text is not None else "missing"
        raise WrongConfig(_JAAS, f"{problem}. {_expected(mechanism)}")
    if mechanism != OAUTHBEARER and not {"username", "password"} <= login.options.keys():
        raise WrongConfig(_JAAS, f"no username or no password. {_expected(mechanism)}")
    return login


def _has_entries(text: str) -> bool:
    """An error of the syntax is not shown: it could contain a part of a password."""
    try:
        return bool(parse_entries(text))
    except JaasError:
        return False


def _expected(mechanism: str) -> str:
    if mechanism == OAUTHBEARER:
        return "Expected: …OAuthBearerLoginModule required;"
    module = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    return f'Expected: …{module} required username="…" password="…";'


def _oauth(configs: Mapping[str, str], options: Mapping[str, str]) -> Sasl:
    """The options of the login module are those of Kafka's clients before 4.1."""
    _check_class(configs, _LOGIN_HANDLER, _OAUTH_LOGIN_HANDLERS)
    _check_class(configs, _RETRIEVER, _RETRIEVERS)
    url = configs.get(_TOKEN_URL, "")
    scheme = urlsplit(url).scheme
    if scheme not in ("https", "http", "file"):
        raise WrongConfig(_TOKEN_URL, "expected the URL of a token endpoint, or file:///… of a token.")
    client_id = configs.get(f"{_CREDENTIALS}client.id") or options.get("clientId", "")
    secret = configs.get(f"{_CREDENTIALS}client.secret") or options.get("clientSecret", "")
    if scheme != "file" and not (client_id and secret):
        raise WrongConfig(_TOKEN_URL, f"needs {_CREDENTIALS}client.id and {_CREDENTIALS}client.secret.")
    scope = configs.get("sasl.oauthbearer.scope") or options.get("scope", "")
    return Sasl(mechanism=OAUTHBEARER, username=client_id, password=secret, token_url=url, scope=scope)


def _check_class(configs: Mapping[str, str], name: str, known: tuple[str, ...]) -> None:
    found = configs.get(name)
    if found and found not in known:
        advice = f"Remove it, or use {known[0]}." if known else "Remove it."
        raise WrongConfig(name, f"cannot load the Java class {found[:200]}. {advice}")


def configs_of(security: Security) -> dict[str, str]:
    """Convert back to configs, for `security_of`. All of them may be secret."""
    protocol = next(
        name for name, parts in _PROTOCOLS.items() if parts == (security.tls is not None, security.sasl is not None)
    )
    configs = {PROTOCOL: protocol}
    if security.tls is not None:
        configs |= _tls_configs(security.tls)
    if security.sasl is not None:
        configs |= _sasl_configs(security.sasl)
    return configs


def _tls_configs(tls: Tls) -> dict[str, str]:
    own = tls.own or ""
    found = {
        "ssl.truststore.type": "PEM" if tls.authorities_password is None else "JKS",
        "ssl.truststore.location": tls.authorities_file,
        "ssl.truststore.password": tls.authorities_password,
        "ssl.truststore.certificates": tls.authorities,
        "ssl.keystore.type": "PEM" if tls.own_password is None else "JKS",
        "ssl.keystore.location": tls.own_file,
        "ssl.keystore.password": tls.own_password,
        "ssl.keystore.key": keys_in(own) or None,
        "ssl.keystore.certificate.chain": certificates_in(own) or None,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": None if tls.checks_host else "",
    }
    return {name: value for name, value in found.items() if value is not None}


def _sasl_configs(sasl: Sasl) -> dict[str, str]:
    if sasl.mechanism == OAUTHBEARER:
        return _oauth_configs(sasl)
    module = f"{_PACKAGE}.plain.PlainLoginModule" if sasl.mechanism == PLAIN else f"{_PACKAGE}.scram.ScramLoginModule"
    token = ' tokenauth="true"' if sasl.has_token else ""
    login = f"{module} required username={_quote(sasl.username)} password={_quote(sasl.password)}{token};"
    return {"sasl.mechanism": sasl.mechanism, _JAAS: login}


def _oauth_configs(sasl: Sasl) -> dict[str, str]:
    named = {"clientId": sasl.username, "clientSecret": sasl.password, "scope": sasl.scope}
    options = "".join(f" {name}={_quote(value)}" for name, value in named.items() if value)
    return {
        "sasl.mechanism": OAUTHBEARER,
        _JAAS: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required{options};",
        _LOGIN_HANDLER: _OAUTH_LOGIN_HANDLERS[0],
        _TOKEN_URL: sasl.token_url,
    }


def keys_in(pem: str) -> str:
    return "".join(f"{block[0]}\n" for block in _PEM.finditer(pem) if _KEY in block[2])


def certificates_in(pem: str) -> str:
    """Return the certificates without keys and without text between them."""
    return "".join(f"{block[0]}\n" for block in _PEM.finditer(pem) if _KEY not in block[2])


def _quote(value: str) -> str:
    """As Java's tokenizer reads it, for which a line break ends a text."""
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return '"' + escaped.replace("\n", r"\n").replace("\r", r"\r") + '"'


def _in_lines(pem: str) -> str:
    """Restore line breaks: Java accepts PEM on one line, as continued lines of a file become, but OpenSSL does not."""
    return _PEM.sub(lambda block: block[0] if "\n" in block[3].strip() else _block_in_lines(block), pem)


def _block_in_lines(block: re.Match[str]) -> str:
    body = "".join(block[3].split())
    lines = [body[place : place + _PEM_LINE] for place in range(0, len(body), _PEM_LINE)]
    return "\n".join((block[1], *lines, f"{block[4]}\n"))
