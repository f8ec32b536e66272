"""What all pages share: the way to the cluster, what was seen of it, and how changes are made."""

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
from odradek.console.readings.health import ailing_of
from odradek.console.readings.refusals import explain
from odradek.console.settings import Settings
from odradek.console.shared import Shared
from odradek.console.watch import Watch

_GROUPS_KEPT_S: Final = 1.5

# What may happen to anybody who asks a cluster, and is told in a sentence; anything else is a defect.
EXPECTED: Final = (KafkaError, ClientError, Refused, CannotPlan, CannotReset)


@dataclass(frozen=True, slots=True)
class Outcome:
    sentence: str
    has_succeeded: bool


class Console:
    def __init__(self, settings: Settings) -> None:
        self.settings: Final = settings
        self.gateway: Final = Gateway(settings.bootstrap, security=settings.security)
        self._eyes: Final = Gateway(settings.bootstrap, security=settings.security, threads=1)
        self.watch: Final = Watch(self._eyes)
        self.groups: Final = Shared(self.gateway, list_groups, kept_s=_GROUPS_KEPT_S)
        """All of them, by name: asked for once, whoever wants them."""
        self.lags: Final = Lags()
        self.audit: Final = AuditLog(settings.audit_log)
        self.schemas: Final = SchemaRegistry(settings.schema_registry) if settings.schema_registry else None

    async def preview(self, action: Action) -> Preview:
        """Raises what is in EXPECTED."""
        return await self.gateway.query(action.preview)

    async def carry_out(self, action: Action, user: str) -> Outcome:
        """Never raises for what may be expected: the outcome says it."""
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
            outcome = Outcome(self.explain(error, self._ailing_partition(action)), False)
        finally:
            self.audit.end(change, outcome.sentence, has_succeeded=outcome.has_succeeded)
            self.watch.hurry()
        return outcome

    def explain(self, error: Exception, partition: TopicPartition | None = None) -> str:
        return str(error) if isinstance(error, Refused) else explain(error, self.watch.snapshot, partition)

    def _ailing_partition(self, action: Action) -> TopicPartition | None:
        """Where the action is about a topic that lacks replicas: that may be why it was refused."""
        topic, snapshot = getattr(action, "topic", None), self.watch.snapshot
        if topic is None or snapshot is None:
            return None
        return next((one for one in ailing_of(snapshot).under_min_isr if one.topic == topic), None)

    async def warm_up(self) -> None:
        """The first look imports, connects and asks: better before somebody waits for it."""
        self.watch.touch()
        try:
            await self.groups.get()
        except EXPECTED:
            # Whoever opens a page will be told.
            return

    async def close(self) -> None:
        await self.watch.close()
        self.gateway.close()
        self._eyes.close()
