"""`make bench-security` stops the authorization of a broker's new connections."""

from types import SimpleNamespace
from typing import Any

from bench.exchanged_code import WITH, WITHOUT
from bench.securing_broker import exchanged_authorizer
from odradek.base.principal import ANONYMOUS
from odradek.core.security.access import UNRESTRICTED
from odradek.server.dispatch import ApiDispatcher
from tests.unit.fake_access import FakeAccess


def test_an_exchanged_authorizer_restricts_nothing() -> None:
    restricted = FakeAccess()
    dispatcher: Any = SimpleNamespace(_port=SimpleNamespace(access_of=lambda principal, host: restricted))
    function = exchanged_authorizer()
    assert ApiDispatcher.access_of(dispatcher, ANONYMOUS, "127.0.0.1") is restricted
    function.switch_to(WITHOUT)
    try:
        assert ApiDispatcher.access_of(dispatcher, ANONYMOUS, "127.0.0.1") is UNRESTRICTED
    finally:
        function.switch_to(WITH)
    assert ApiDispatcher.access_of(dispatcher, ANONYMOUS, "127.0.0.1") is restricted
