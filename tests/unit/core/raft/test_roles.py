from typing import get_args

from odradek.core.raft.roles import TRANSITIONS, VOTERS_ONLY, Follower, Leader, Role, Unattached


def test_every_role_is_in_the_table() -> None:
    roles = set(get_args(Role))
    assert set(TRANSITIONS) == roles
    assert all(set(targets) <= roles and all(targets.values()) for targets in TRANSITIONS.values())
    assert roles >= VOTERS_ONLY


def test_every_role_can_follow_a_higher_epoch() -> None:
    for source, targets in TRANSITIONS.items():
        assert Unattached in targets, source
        assert Follower in targets, source


def test_only_candidates_become_leaders() -> None:
    assert [source.__name__ for source, targets in TRANSITIONS.items() if Leader in targets] == ["Candidate"]
