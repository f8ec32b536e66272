"""JAAS login entries, as Kafka's users write them in `sasl.jaas.config`: CLASS FLAG key=value …;

The tokens are those of Java's StreamTokenizer. Errors never contain a value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    f"{_PACKAGE}.plain.PlainLoginModule": ("PLAIN",),
    f"{_PACKAGE}.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
}
"""The mechanisms of each known login module."""

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"


class JaasError(ValueError):
    """The message is one line, without values."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    login_module: str
    options: Mapping[str, str] = field(repr=False)

    def users(self) -> dict[str, str]:
        """The passwords of the users of a PLAIN listener: the options user_NAME."""
        return {name.removeprefix("user_"): text for name, text in self.options.items() if name.startswith("user_")}


def parse_login(text: str, mechanism: str) -> JaasEntry:
    """The only entry of a `sasl.jaas.config` for this mechanism. Raises JaasError."""
    entries = parse_entries(text)
    if len(entries) != 1:
        raise JaasError(f"expected one login module, not {len(entries)}")
    entry = entries[0]
    mechanisms = LOGIN_MODULES.get(entry.login_module)
    if mechanisms is None:
        known = " or ".join(name.rpartition(".")[2] for name in LOGIN_MODULES)
        raise JaasError(f"cannot load the login module {entry.login_module[:200]}; use Kafka's {known}")
    if mechanism not in mechanisms:
        raise JaasError(f"{entry.login_module.rpartition('.')[2]} does not log in with {mechanism}")
    return entry


def parse_entries(text: str) -> list[JaasEntry]:
    """Raises JaasError."""
    tokens = _Tokens(text)
    entries = []
    while (token := tokens.next()) is not None:
        entries.append(_parse_entry(token, tokens))
    return entries


def _parse_entry(module: "_Token", tokens: "_Tokens") -> JaasEntry:
    if module.text is None:
        raise JaasError("expected the class of a login module")
    flag = tokens.next()
    if flag is None or flag.text is None:
        raise JaasError(f"no control flag after {module.text[:200]}; add required")
    if flag.text.upper() not in _FLAGS:
        raise JaasError(f"no valid control flag after {module.text[:200]}; use required")
    options: dict[str, str] = {}
    while (key := tokens.next()) is not None and key.symbol != ";":
        equals, value = tokens.next(), tokens.next()
        if key.text is None or equals is None or equals.symbol != "=" or value is None or value.text is None:
            name = "an option" if key.text is None else key.text[:200]
            raise JaasError(f"no value for {name}; write it in double quotes")
        options[key.text] = value.text
    if key is None:
        raise JaasError("the entry does not end with a semicolon")
    return JaasEntry(module.text, options)


@dataclass(frozen=True, slots=True, repr=False)
class _Token:
    """A word or a quoted text, or a symbol. A number is neither, as in Java: it must be quoted."""

    text: str | None = None
    symbol: str = ""


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: Final = _tokenize(text)

    def next(self) -> _Token | None:
        return next(self._tokens, None)


def _tokenize(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        char = text[place]
        if char <= " ":
            place += 1
        elif char == "/":
            place = _skip_comment(text, place)
        elif char in "\"'":
            value, place = _quoted(text, place)
            yield _Token(value)
        elif _is_letter(char) and char != "-":
            end = place + 1
            while end < len(text) and (_is_letter(text[end]) or text[end] in ".0123456789"):
                end += 1
            yield _Token(text[place:end])
            place = end
        elif char in "-.0123456789":
            end = place + 1
            while end < len(text) and text[end] in ".0123456789":
                end += 1
            yield _Token()
            place = end
        else:
            yield _Token(symbol=char)
            place += 1


def _is_letter(char: str) -> bool:
    return (char.isascii() and (char.isalpha() or char in "-_$")) or char >= "\xa0"


def _skip_comment(text: str, place: int) -> int:
    """A slash alone starts a comment too."""
    if text.startswith("/*", place):
        end = text.find("*/", place + 2)
        return len(text) if end < 0 else end + 2
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _quoted(text: str, place: int) -> tuple[str, int]:
    """The value and the place after it. As in Java, the end of the line ends it too."""
    quote = text[place]
    place += 1
    value: list[str] = []
    while place < len(text) and text[place] not in (quote, "\n", "\r"):
        char = text[place]
        place += 1
        if char == "\\" and place < len(text):
            char, place = _escaped(text, place)
        value.append(char)
    return "".join(value), place + (text[place : place + 1] == quote)


def _escaped(text: str, place: int) -> tuple[str, int]:
    char = text[place]
    if char not in _OCTAL:
        return _ESCAPES.get(char, char), place + 1
    end = place + 1
    length_max = 3 if char <= "3" else 2
    while end < min(len(text), place + length_max) and text[end] in _OCTAL:
        end += 1
    return chr(int(text[place:end], 8)), end
