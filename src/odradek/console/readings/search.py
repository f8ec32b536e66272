"""Finds pages and resources by a part of their name: best matches first, a few at most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from odradek.config.definitions import BROKER_CONFIGS
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import inert, link_to

HITS_MAX: Final = 12
WORDS_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Hit:
    kind: str
    text: str
    link: str


def find(
    words: str, snapshot: ClusterSnapshot | None, groups: Sequence[str], places: Sequence[tuple[str, str]]
) -> list[Hit]:
    """`places` are the pages of the console, by name and address."""
    wanted = words.strip().lower()[:WORDS_LENGTH_MAX]
    if not wanted:
        return []
    ranked = (
        (_distance(wanted, name), rank, len(name), name, hit)
        for rank, (name, hit) in enumerate(_candidates(snapshot, groups, places))
        if wanted in name
    )
    return [hit for *_, hit in nsmallest(HITS_MAX, ranked, key=lambda item: (item[0], item[2], item[1]))]


def _distance(wanted: str, name: str) -> int:
    if name == wanted:
        return 0
    return 1 if name.startswith(wanted) else 2


def _candidates(
    snapshot: ClusterSnapshot | None, groups: Sequence[str], places: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, Hit]]:
    """Lower-case names and their links."""
    for name, address in places:
        yield name.lower(), Hit("Page", name, address)
    if snapshot is not None:
        for broker in snapshot.members:
            yield f"broker {broker}", Hit("Broker", f"Broker {broker}", link_to("brokers", broker))
        for topic in snapshot.topics:
            yield topic.lower(), Hit("Topic", inert(topic), link_to("topics", topic))
    for group in groups:
        yield group.lower(), Hit("Group", inert(group), link_to("groups", "one", id=group))
    for config in BROKER_CONFIGS:
        yield config, Hit("Config", config, link_to("configs", search=config))
