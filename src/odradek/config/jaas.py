"""JAAS login entries, as Kafka's users write them in `sasl.jaas.config` and in JAAS files: CLASS FLAG key=value …;

The tokens are those of Java's StreamTokenizer. Errors never contain a value.
"""

from collections.abc import Callable, Iterator, Mapping
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
    check_login_module(entry)
    if mechanism not in LOGIN_MODULES[entry.login_module]:
        raise JaasError(f"{entry.login_module.rpartition('.')[2]} does not log in with {mechanism}")
    return entry


def check_login_module(entry: JaasEntry) -> None:
    """Raises JaasError if the class is not one of Kafka's."""
    if entry.login_module not in LOGIN_MODULES:
        known = " or ".join(name.rpartition(".")[2] for name in LOGIN_MODULES)
        raise JaasError(f"cannot load the login module {entry.login_module[:200]}; use Kafka's {known}")


def parse_entries(text: str) -> list[JaasEntry]:
    """Raises JaasError."""
    tokens = Tokens(text)
    entries = []
    while (token := tokens.next()) is not None:
        entries.append(parse_entry(token, tokens))
    return entries


def parse_entry(
    module: "Token", tokens: "Tokens", expand: Callable[[str, str], str] = lambda name, text: text
) -> JaasEntry:
    """The entry that starts with this token. `expand` is called for each option and its value. Raises JaasError."""
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
        options[key.text] = expand(key.text, value.text)
    if key is None:
        raise JaasError("the entry does not end with a semicolon")
    return JaasEntry(module.text, options)


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A word or a quoted text, or a symbol. A number is neither, as in Java: it must be quoted."""

    text: str | None = None
    symbol: str = ""


class Tokens:
    def __init__(self, text: str, *, is_file: bool = False) -> None:
        """Java's parser of files has one more letter, and one kind of quotes less, than Kafka's parser of configs."""
        self._tokens: Final = _tokenize(text, "-_$*" if is_file else "-_$", '"' if is_file else "\"'")

    def next(self) -> Token | None:
        return next(self._tokens, None)

    def expect(self, symbol: str, place: str) -> None:
        """Raises JaasError if the next token is another one."""
        token = self.next()
        if token is None or token.symbol != symbol:
            raise JaasError(f"expected {symbol} {place}")


def _tokenize(text: str, more_letters: str, quotes: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        char = text[place]
        if char <= " ":
            place += 1
        elif char == "/":
            place = _skip_comment(text, place)
        elif char in "\"'":
            value, place = _quoted(text, place)
            yield Token(value if char in quotes else None)
        elif _is_letter(char, more_letters) and char != "-":
            end = place + 1
            while end < len(text) and (_is_letter(text[end], more_letters) or text[end] in ".0123456789"):
                end += 1
            yield Token(text[place:end])
            place = end
        elif char in "-.0123456789":
            end = place + 1
            while end < len(text) and text[end] in ".0123456789":
                end += 1
            yield Token()
            place = end
        else:
            yield Token(symbol=char)
            place += 1


def _is_letter(char: str, more_letters: str) -> bool:
    return (char.isascii() and (char.isalpha() or char in more_letters)) or char >= "\xa0"


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
