from collections.abc import Callable

import pytest

from tests.raft.transcripts import GOLDEN, PLAYS, Play, table_of_roles, transcript


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_transcript_is_the_golden_one(play: Callable[[], Play]) -> None:
    """If the change is meant: `python -m tests.raft transcripts`, and look at the diff."""
    assert transcript(play) == (GOLDEN / f"{play.__name__}.txt").read_text()


def test_the_table_of_roles_is_the_golden_one() -> None:
    assert table_of_roles() == (GOLDEN / "roles.txt").read_text()
