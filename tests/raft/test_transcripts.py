from collections.abc import Callable

import pytest

from tests.raft.transcripts import GOLDEN, RECORDINGS, Recording, table_of_roles, transcript


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.__name__)
def test_transcript_equals_golden_file(recording: Callable[[], Recording]) -> None:
    """After an intended change, run `python -m tests.raft transcripts` and review the diff."""
    assert transcript(recording) == (GOLDEN / f"{recording.__name__}.txt").read_text()


def test_role_transitions_equal_golden_file() -> None:
    assert table_of_roles() == (GOLDEN / "roles.txt").read_text()
