"""Every planted bug replaces something that exists, and restores it."""

import pytest

from odradek.sim.planted import BUGS
from odradek.sim.planted_bug import install_bug


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_fit_the_code(name: str) -> None:
    bug = BUGS[name]
    pieces = [(bug.owner, bug.attribute), *((owner, attribute) for owner, attribute, _ in bug.also)]
    sound = [vars(owner)[attribute] for owner, attribute in pieces]
    with install_bug(bug):
        assert all(vars(owner)[attribute] is not one for (owner, attribute), one in zip(pieces, sound, strict=True))
    assert [vars(owner)[attribute] for owner, attribute in pieces] == sound
