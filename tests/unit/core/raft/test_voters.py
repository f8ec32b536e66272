from uuid import UUID

from odradek.core.raft.voters import Quorum, standalone
from odradek.records.control import VoterEndpoint

DIRECTORY = UUID(int=7000)
HERE = (VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=9093),)


def test_control_records_rebuild_the_quorum() -> None:
    quorum = standalone(1, DIRECTORY, HERE)
    assert Quorum().after(quorum.messages()) == quorum
    assert Quorum().messages() == ()
