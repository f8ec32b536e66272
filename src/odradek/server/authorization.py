"""The authorizer of one role of a node, as its configs define it, and the log of denied requests."""

import logging
from typing import Final

from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.security.authorizer import Authorizer, Denial
from odradek.server.audit.trail import AuditTrail

logger = logging.getLogger("kafka.authorizer.logger")

LOGGED_PER_SECOND_MAX: Final = 100


def new_authorizer(config: NodeConfig, clock: Clock, trail: AuditTrail | None = None) -> Authorizer | None:
    """None: every client may do everything."""
    if not config.authorizer_class_name:
        return None
    on_denied = DenialLog(clock).on_denied

    def log_and_audit(denial: Denial) -> None:
        on_denied(denial)
        if trail is not None:
            trail.on_denied(denial)

    return Authorizer(
        config.super_users,
        allows_without_acl=config.allow_everyone_if_no_acl_found,
        on_denied=on_denied if trail is None else log_and_audit,
    )


class DenialLog:
    """Logs denials, but not more than a limited number per second: clients may cause any number."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._second = 0
        self._logged = 0
        self._omitted = 0

    def on_denied(self, denial: Denial) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        second = int(self._clock.monotonic())
        if second != self._second:
            if self._omitted:
                logger.info("Further denials not logged: count=%d", self._omitted)
            self._second, self._logged, self._omitted = second, 0, 0
        if self._logged >= LOGGED_PER_SECOND_MAX:
            self._omitted += 1
            return
        self._logged += 1
        logger.info(
            "Denied: principal=%s, operation=%s, resource=%s:LITERAL:%s, host=%s, rule=%s",
            denial.principal,
            denial.operation.name,
            denial.resource_type.name,
            denial.name,
            denial.host,
            denial.rule,
        )
