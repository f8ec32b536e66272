"""Sets one config, or resets it to its default."""

from dataclasses import dataclass

from odradek.base.errors import KafkaError
from odradek.client.admin import Admin, Resource
from odradek.client.cluster import Cluster
from odradek.client.config_description import DescribedConfig, describe_configs, wait_until_applied
from odradek.client.errors import ClientError
from odradek.console.actions.action import Preview, Refused
from odradek.console.readings.configs import shown_value, source_of, title_of
from odradek.console.readings.table import Column, Row, inert

_COLUMNS = (Column("what", ""), Column("now", "Now"), Column("then", "Then"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfig:
    resource: Resource
    config: str
    value: str | None
    """None resets the config to its default."""
    seen: DescribedConfig
    """The value that the user saw when editing."""
    name: str = "Change config"

    @property
    def target(self) -> str:
        return f"{self.config} of {title_of(self.resource)}"

    def details(self) -> dict[str, object]:
        if self.seen.is_sensitive:
            return {"config": self.config}
        return {"config": self.config, "from": self.seen.value, "to": self.value}

    def preview(self, cluster: Cluster) -> Preview:
        """The cluster validates the change."""
        now = self._check_unchanged(cluster)
        if self.value is None and not now.is_own:
            raise Refused(f"{self.config} is not set for {title_of(self.resource)}, so there is nothing to remove.")
        self._alter(cluster, validate_only=True)
        then = (
            "the default, unless it is set at another level"
            if self.value is None
            else shown_value(self.value, now.is_sensitive)
        )
        if self.value is None and now.default is not None and not now.is_sensitive:
            then = f"the default, {inert(now.default)}, unless it is set at another level"
        is_same = self.value == now.value and now.is_own
        return Preview(
            sentence=f"Nothing changes: {self.config} already has this value."
            if is_same
            else f"Changes {self.config} of {title_of(self.resource)}.",
            columns=_COLUMNS,
            rows=[
                Row(
                    self.config,
                    {"what": inert(self.config), "now": shown_value(now.value, now.is_sensitive), "then": then},
                ),
                Row("from", {"what": "Source", "now": source_of(now), "then": _source_then(self)}),
            ],
            is_empty=is_same,
        )

    def carry_out(self, cluster: Cluster) -> str:
        self._check_unchanged(cluster)
        self._alter(cluster, validate_only=False)
        done = "removed" if self.value is None else f"set to {shown_value(self.value, self.seen.is_sensitive)}"
        return f"{self.config} of {title_of(self.resource)} is {done}" + self._how_far(cluster)

    def _how_far(self, cluster: Cluster) -> str:
        """Waits until every broker returns the new value."""
        if self.seen.is_sensitive:
            # Brokers do not return the values of sensitive configs.
            return "."
        try:
            wait_until_applied(cluster, self.resource, self.config, self._is_another)
        except (KafkaError, ClientError):
            return "; not all brokers have applied it yet."
        return "."

    def _is_another(self, now: DescribedConfig) -> bool:
        return (now.value, now.source) != (self.seen.value, self.seen.source)

    def _check_unchanged(self, cluster: Cluster) -> DescribedConfig:
        """Refuses to overwrite a change that another user made in the meantime."""
        for now in describe_configs(cluster, self.resource):
            if now.name == self.config:
                if self._is_another(now):
                    raise Refused(
                        f"Nothing was changed because {self.config} was changed in the meantime, from"
                        f" {shown_value(self.seen.value, now.is_sensitive)!r} to"
                        f" {shown_value(now.value, now.is_sensitive)!r}. Review the current value and try again."
                    )
                return now
        raise Refused(f"{title_of(self.resource)} no longer has a config {self.config}.")

    def _alter(self, cluster: Cluster, *, validate_only: bool) -> None:
        Admin(cluster).alter_configs(
            self.resource,
            changes={} if self.value is None else {self.config: self.value},
            removals=(self.config,) if self.value is None else (),
            validate_only=validate_only,
        )


def _source_then(action: AlterConfig) -> str:
    return "the next level at which it is set" if action.value is None else title_of(action.resource)
