"""The audit log of a node, if its configuration has one."""

import logging
from typing import TYPE_CHECKING, Final

from odradek import __version__
from odradek.base.ports import Clock, Executor
from odradek.config.node_config import NodeConfig
from odradek.node.security import SecurityError
from odradek.server.audit.trail import AuditTrail
from odradek.server.security import AuthenticationFailure

if TYPE_CHECKING:
    from odradek.observe.audit_log import AuditLog as _Log

logger = logging.getLogger(__name__)


class NodeAudit:
    def __init__(self, config: NodeConfig, clock: Clock, executor: Executor) -> None:
        self._path: Final = config.audit_log_file
        self._executor: Final = executor
        self.log: _Log | None = None
        self.trail: AuditTrail | None = None
        """None: the node has no audit log."""
        if self._path:
            # Imported only by nodes with an audit log.
            from odradek.host.rotated_file import RotatedFile
            from odradek.observe.audit_log import AuditLog

            file = RotatedFile(self._path, bytes_max=config.audit_log_max_bytes, files_max=config.audit_log_max_files)
            self.log = AuditLog(file, config.node_id, clock, format_name=config.audit_log_format, version=__version__)
            self.trail = AuditTrail(config.node_id, clock, self.log)

    async def start(self) -> None:
        """Raises SecurityError: a node whose operator wants an audit log does not run without one."""
        if self.log is None:
            return
        try:
            await self._executor.run(self.log.start)
        except OSError as error:
            raise SecurityError(f"audit.log.file={self._path}: {error.strerror or error}") from error
        logger.info("Audit log opened: file=%s", self._path)

    async def stop(self) -> None:
        if self.log is not None:
            await self._executor.run(self.log.stop)

    def on_authentication_failure(self, failure: AuthenticationFailure) -> None:
        if self.trail is not None:
            self.trail.on_authentication_failure(failure)
