from odradek.console.readings.search import HITS_MAX, find
from tests.unit.console.snapshots import partition, snapshot, topic

PLACES = (("Overview", "/"), ("Topics", "/topics"))
SEEN = snapshot(*(topic(name, partition(0, (1,))) for name in ("orders", "orders.late", "late-orders", "<b>x\x07")))


def texts(words: str, groups: tuple[str, ...] = ()) -> list[str]:
    return [f"{hit.kind} {hit.text}" for hit in find(words, SEEN, groups, PLACES)]


def test_search_ranks_closest_match_first_across_kinds() -> None:
    assert texts("Orders", ("orders-app", "other")) == [
        "Topic orders",
        "Group orders-app",
        "Topic orders.late",
        "Topic late-orders",
    ]
    assert texts("broker 2") == ["Broker Broker 2"]
    assert texts("topics")[0] == "Page Topics"
    assert "Config min.insync.replicas" in texts("min.insync")
    assert texts("  ") == []
    assert texts("no such thing") == []


def test_search_hits_escape_names_and_link_to_their_page() -> None:
    (hit,) = find("<b>", SEEN, (), PLACES)
    assert (hit.text, hit.link) == ("<b>x\\x07", "/topics/%3Cb%3Ex%07")
    assert find("a", None, ("a",), PLACES)[0].link == "/groups/one?id=a"


def test_search_of_ten_thousand_names_is_limited() -> None:
    assert len(find("g", None, [f"g{number}" for number in range(10_000)], PLACES)) == HITS_MAX
