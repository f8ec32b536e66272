"""The authorizer of one role of a node, as its configs define it, and the log of denied requests."""

import logging
from typing import Final

from odradek.base.ports import Clock
from odradek.config.node_config import NodeConfig
from odradek.core.security.authorizer import Authorizer, Denial
from odradek.server.audit.trail import AuditTrail
from odradek.server.log_limits import LogLimit

logger = logging.getLogger("kafka.authorizer.logger")


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
        self._limit: Final = LogLimit()

    def on_denied(self, denial: Denial) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        omitted = self._limit.take_omitted(int(self._clock.monotonic()))
        if omitted:
            logger.info("Further denials not logged: count=%d", omitted)
        if not self._limit.admits():
            return
        logger.info(
            "Denied: principal=%s, operation=%s, resource=%s:LITERAL:%s, host=%s, rule=%s",
            denial.principal,
            denial.operation.name,
            denial.resource_type.name,
            denial.name,
            denial.host,
            denial.rule,
        )
