"""Collects the errors and warnings of a configuration with their lines, to report them all at once."""

from collections.abc import Callable, Collection, Mapping


class ConfigErrors(Exception):
    """All errors of a configuration, one line each: `file:line: message`."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


class Problems:
    """Errors and warnings of one configuration, in the order of its lines."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: Mapping[str, int | None] = {}
        self._errors: list[tuple[int, str]] = []
        self._warnings: list[tuple[int, str]] = []
        self._keys_with_errors: set[str] = set()
        self._keys_to_hide: Collection[str] = ()
        self._hide: Callable[[str], str] = str

    def locate(self, lines: Mapping[str, int | None]) -> None:
        """Sets the line of each key; None for one given on the command line."""
        self._lines = lines

    def hide(self, keys: Collection[str], hide: Callable[[str], str]) -> None:
        """Keep the values of these keys, which may be secret, out of later messages."""
        self._keys_to_hide, self._hide = keys, hide

    def error(self, key: str, message: str) -> None:
        # The message may contain a part of the value, or the value in another form.
        if key in self._keys_to_hide:
            message = f"{key}: invalid value. It is not shown, because it comes from a config provider"
        self._keys_with_errors.add(key)
        self._errors.append(self._locate(key, message))

    def error_at(self, line: int, message: str) -> None:
        self._errors.append((line, f"{self._source}:{line}: {message}"))

    def warn(self, key: str, message: str) -> None:
        if key in self._keys_to_hide:
            message = f"{key}: check the value. It is not shown, because it comes from a config provider"
        self._warnings.append(self._locate(key, message))

    def has_error(self, *keys: str) -> bool:
        """Whether one of these has an error, so that consequential errors are not reported."""
        return not self._keys_with_errors.isdisjoint(keys)

    @property
    def warnings(self) -> list[str]:
        return [text for _, text in sorted(self._warnings, key=lambda located: located[0])]

    def raise_if_any(self) -> None:
        if self._errors:
            raise ConfigErrors(tuple(text for _, text in sorted(self._errors, key=lambda located: located[0])))

    def _locate(self, key: str, message: str) -> tuple[int, str]:
        message = self._hide(message)
        if key not in self._lines:
            return 0, f"{self._source}: {message}"
        line = self._lines[key]
        if line is None:
            return 1 << 31, f"--override {key}: {message}"
        return line, f"{self._source}:{line}: {message}"
