"""The configuration under validation, which the checks share."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from odradek.config.jaas_file import LoginFile
from odradek.config.listeners import AddressError
from odradek.config.problems import Problems
from odradek.config.topic_config import Texts

T = TypeVar("T")


class Given(NamedTuple):
    texts: Texts
    typed: Mapping[str, Any]
    problems: Problems
    login_file: LoginFile | None = None

    def attempt(self, key: str, parse: Callable[[], T]) -> T | None:
        try:
            return parse()
        except AddressError as error:
            self.problems.error(key, f"{key}: {error}")
            return None
