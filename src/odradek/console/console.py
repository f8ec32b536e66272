"""State shared by all pages: the gateway, the latest snapshot of the cluster, and the execution of changes."""

from dataclasses import dataclass
from typing import Final

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.errors import ClientError
from odradek.client.offset_reset import CannotReset
from odradek.client.reassignment_plan import CannotPlan
from odradek.console.actions.action import Action, Preview, Refused
from odradek.console.actions.audit import AuditLog
from odradek.console.gateway import Gateway
from odradek.console.history import Lags
from odradek.console.queries.groups import list_groups
from odradek.console.queries.schema_registry import SchemaRegistry
from odradek.console.readings.health import partition_problems
from odradek.console.readings.refusals import explain
from odradek.console.settings import Settings
from odradek.console.shared import Shared
from odradek.console.watch import Watch

_GROUPS_KEPT_S: Final = 1.5

# Expected errors, shown to the user as a sentence; any other exception is a defect.
EXPECTED: Final = (KafkaError, ClientError, Refused, CannotPlan, CannotReset)


@dataclass(frozen=True, slots=True)
class Outcome:
    sentence: str
    has_succeeded: bool


class Console:
    def __init__(self, settings: Settings) -> None:
        self.settings: Final = settings
        self.gateway: Final = Gateway(settings.bootstrap, security=settings.security)
        self._snapshot_gateway: Final = Gateway(settings.bootstrap, security=settings.security, threads=1)
        self.watch: Final = Watch(self._snapshot_gateway)
        self.groups: Final = Shared(self.gateway, list_groups, kept_s=_GROUPS_KEPT_S)
        """All groups by name; one query serves all pages."""
        self.lags: Final = Lags()
        self.audit: Final = AuditLog(settings.audit_log)
        self.schemas: Final = SchemaRegistry(settings.schema_registry) if settings.schema_registry else None

    async def preview(self, action: Action) -> Preview:
        """Raises the exceptions in EXPECTED."""
        return await self.gateway.query(action.preview)

    async def carry_out(self, action: Action, user: str) -> Outcome:
        """Returns expected errors as an outcome instead of raising them."""
        if self.settings.is_read_only:
            return Outcome("Nothing was changed because the console runs with --read-only.", False)
        try:
            change = self.audit.begin(user, action)
        except Refused as error:
            return Outcome(str(error), False)
        outcome = Outcome("The console failed during the change. Check whether the change took effect.", False)
        try:
            outcome = Outcome(await self.gateway.query(action.carry_out), True)
        except EXPECTED as error:
            outcome = Outcome(self.explain(error, self._under_min_isr_partition(action)), False)
        finally:
            self.audit.end(change, outcome.sentence, has_succeeded=outcome.has_succeeded)
            self.watch.hurry()
        return outcome

    def explain(self, error: Exception, partition: TopicPartition | None = None) -> str:
        return str(error) if isinstance(error, Refused) else explain(error, self.watch.snapshot, partition)

    def _under_min_isr_partition(self, action: Action) -> TopicPartition | None:
        """Returns a partition of the action's topic below min ISR, the likely reason for the rejection."""
        topic, snapshot = getattr(action, "topic", None), self.watch.snapshot
        if topic is None or snapshot is None:
            return None
        return next((one for one in partition_problems(snapshot).under_min_isr if one.topic == topic), None)

    async def warm_up(self) -> None:
        """Takes the first snapshot, which imports modules and connects, before a user waits for it."""
        self.watch.touch()
        try:
            await self.groups.get()
        except EXPECTED:
            # The first page shows the error.
            return

    async def close(self) -> None:
        await self.watch.close()
        self.gateway.close()
        self._snapshot_gateway.close()
