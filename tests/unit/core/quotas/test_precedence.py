from collections.abc import Mapping

import pytest

from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.precedence import AppliedLimit, LimitTable

# From the most specific limit to the least; the limit is its place.
LEVELS: list[tuple[QuotaEntityKey, str, str]] = [
    ((("client-id", "app"), ("user", "bob")), "bob", "app"),
    ((("client-id", None), ("user", "bob")), "bob", "app"),
    ((("user", "bob"),), "bob", ""),
    ((("client-id", "app"), ("user", None)), "bob", "app"),
    ((("client-id", None), ("user", None)), "bob", "app"),
    ((("user", None),), "bob", ""),
    ((("client-id", "app"),), "", "app"),
    ((("client-id", None),), "", "app"),
]


def table(limits: Mapping[QuotaEntityKey, float]) -> LimitTable:
    return LimitTable(limits)


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_most_specific_limit_applies(first: int) -> None:
    limits = table({entity: float(place) for place, (entity, _, _) in enumerate(LEVELS) if place >= first})
    _, user, client_id = LEVELS[first]
    assert limits.find("bob", "app") == AppliedLimit(user, client_id, float(first))


def test_limits_of_others_do_not_apply() -> None:
    limits = table(
        {(("client-id", "app"), ("user", "bob")): 1.0, (("user", "carol"),): 2.0, (("client-id", "x"),): 3.0}
    )
    assert limits.find("bob", "other") is None
    assert limits.find("dave", "app") is None


def test_clients_of_a_user_share_the_limit_of_the_user() -> None:
    limits = table({(("user", None),): 5.0})
    assert limits.find("bob", "a") == limits.find("bob", "b") == AppliedLimit("bob", "", 5.0)
    assert limits.find("carol", "a") == AppliedLimit("carol", "", 5.0)


@pytest.mark.parametrize("client_id", [None, ""])
def test_request_without_a_client_id_has_only_limits_of_its_user(client_id: str | None) -> None:
    assert table({(("client-id", None),): 1.0}).find("bob", client_id) is None
    assert table({(("user", "bob"),): 1.0}).find("bob", client_id) == AppliedLimit("bob", "", 1.0)
    assert table({(("client-id", None), ("user", "bob")): 1.0}).find("bob", client_id) is None


def test_addresses_are_no_limits_of_clients() -> None:
    assert not table({(("ip", "10.0.0.1"),): 1.0})
