"""The log of denied requests, and the authorizer of a role."""

import logging

import pytest

from odradek.base.principal import ANONYMOUS
from odradek.config.node_config import NodeConfig
from odradek.core.security.authorizer import Decision, Denial, Reason
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.authorization import DenialLog, new_authorizer
from odradek.server.log_limits import LOGGED_PER_SECOND_MAX
from tests.unit.quorum.fake_controller_node import PROPERTIES, ManualClock

DENIED = Decision(False, Reason.NO_ENTRY)
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


def denial(name: str) -> Denial:
    return Denial(ANONYMOUS, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name, DENIED)


def test_denials_are_logged_with_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    DenialLog(ManualClock()).on_denied(denial("secret"))
    assert [record.getMessage() for record in caplog.records] == [
        "Denied: principal=User:ANONYMOUS, operation=READ, resource=TOPIC:LITERAL:secret, host=10.0.0.1, "
        "rule=DefaultDeny"
    ]


def test_denials_beyond_the_limit_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    clock = ManualClock()
    log = DenialLog(clock)
    for number in range(LOGGED_PER_SECOND_MAX + 7):
        log.on_denied(denial(str(number)))
    assert len(caplog.records) == LOGGED_PER_SECOND_MAX
    clock.now += 1
    log.on_denied(denial("later"))
    later = [record.getMessage() for record in caplog.records[LOGGED_PER_SECOND_MAX:]]
    assert later[0] == "Further denials not logged: count=7"
    assert "LITERAL:later" in later[1]


def test_denials_are_not_logged_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kafka.authorizer.logger")
    DenialLog(ManualClock()).on_denied(denial("a"))
    assert not caplog.records


def test_authorizer_is_built_from_its_configs() -> None:
    def built(text: str) -> object:
        return new_authorizer(NodeConfig.load(PROPERTIES + text, "server.properties"), ManualClock())

    assert built("") is None
    authorizer = new_authorizer(
        NodeConfig.load(PROPERTIES + AUTHORIZER + "super.users=User:root\n", "server.properties"), ManualClock()
    )
    assert authorizer is not None
    authorizer.set_ready()
    decided = [
        authorizer.decide(user, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "a").allowed
        for user in ("User:root", "User:other")
    ]
    assert decided == [True, False]
