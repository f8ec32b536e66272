"""Seeds that have found faults of ours, which are mended: what they were, and that they pass."""

import pytest

from odradek.sim.__main__ import run_one

pytestmark = pytest.mark.tier("proof")

FOUND = (
    # A replica taken away and given back while it moved between log dirs: what the move had yet to delete was its log.
    (40006, "replicas-damaged"),
    # A replica that had forgotten a DeleteRecords led again before it heard of it.
    (20158, "replicas-damaged"),
    # What a slow disk wrote while its broker stopped was taken for committed.
    (40232, "replicas-crash"),
    # A replica waited for what it could not know before it was in sync, and was not in sync before it knew.
    (40159, "replicas-apart"),
)

# Judged wrongly once: what happened there happens in Kafka too, and is right.
MISJUDGED = (
    # Below the start of its leader's log a follower does not look for what is not its leader's.
    (70087, "replicas-deposed"),
    # Whoever is left alone, and dies, forgets where its log starts, if that is not written down yet.
    (70305, "replicas-flushed"),
    # Where a producer's records are deleted, a replica that is added does not know what it has sent.
    (80377, "replicas-power-loss"),
    # Deleted records, where groups are at work.
    (100038, "groups"),
    # A heartbeat arrives, and its broker stops before it is answered.
    (100325, "groups"),
    # A coordinator that is cut off from the other nodes says what it knew.
    (100409, "groups"),
    # Whoever reads everything at the end is sent to another leader on the way.
    (103118, "transactions"),
)


@pytest.mark.parametrize(("seed", "scenario"), [*FOUND, *MISJUDGED])
def test_what_a_seed_has_found_is_mended(seed: int, scenario: str) -> None:
    assert [str(found) for found in run_one(seed, scenario, None).violations] == []
