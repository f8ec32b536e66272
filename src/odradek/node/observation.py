"""The metrics of a node: what the HTTP endpoint serves, and the periodic measurements behind it.

Without an HTTP address nothing of it runs.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.base.background import log_fault
from odradek.base.ids import TopicPartition
from odradek.base.ports import Clock, Executor, Random
from odradek.broker.broker import Broker
from odradek.config.listeners import HTTP
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import EMPTY_IMAGE, ClusterImage
from odradek.core.security.authorizer import Authorizer
from odradek.core.security.resources import Operation, ResourceType
from odradek.instruments.authentication import AuthenticationCounts
from odradek.instruments.elections import ElectionCounts
from odradek.instruments.loop_watch import LoopWatch
from odradek.instruments.requests import RequestMeters
from odradek.instruments.traffic import RATED, TrafficRates
from odradek.observe import hot_keys
from odradek.observe.audit_readings import no_audit_log
from odradek.observe.authorizer_readings import AuthorizerReadings
from odradek.observe.cluster_readings import count_elections
from odradek.observe.endpoint import HttpEndpoint, HttpTls
from odradek.observe.families import Family
from odradek.observe.hot_keys import HotKeys
from odradek.observe.http_access import HttpClient, HttpSecurity
from odradek.observe.quota_readings import QuotaReadings
from odradek.observe.scrape import Source
from odradek.quorum.driver import QuorumDriver
from odradek.quorum.quorum import Quorum
from odradek.server.listeners import NodeListeners
from odradek.server.periodic import Periodic
from odradek.server.security import AuthenticationFailure
from odradek.server.server import ListenError
from odradek.storage.partition.partition import Partition

if TYPE_CHECKING:
    from odradek.observe.audit_log import AuditLog

RATES_INTERVAL_MS: Final = 5_000
MARKS_INTERVAL_MS: Final = 60_000
WATCH_INTERVAL_SECONDS: Final = 0.05
STARTING: Final = "starting"
STOPPING: Final = "stopping"
_BROKER_STATES: Final = {STARTING: 1, None: 3, STOPPING: 6}


class Observation:
    """`NodeView` of the metrics. It serves requests while the node is still starting."""

    def __init__(
        self,
        config: NodeConfig,
        listeners: NodeListeners,
        failed: "asyncio.Future[str]",
        *,
        clock: Clock,
        executor: Executor,
        periodic: Periodic,
        random: Random,
        certificate_expiries_ms: Callable[[], Mapping[str, int]],
    ) -> None:
        self._address: Final = config.http_address
        self._roles: Final = config.process_roles
        self._listeners: Final = listeners
        self._failed: Final = failed
        self._certificate_expiries_ms: Final = certificate_expiries_ms
        self._clock: Final = clock
        self._periodic: Final = periodic
        self._rates: Final = TrafficRates()
        self._rates_at = clock.monotonic()
        self._hot_keys: Final = HotKeys(self._partitions, executor, random) if config.hot_keys_enable else None
        self._keys_at = clock.monotonic()
        self._watching: asyncio.TimerHandle | None = None
        self._quorum: Quorum | None = None
        self.node_id: Final = config.node_id
        self.is_controller: Final = config.is_controller
        self.meters: Final = RequestMeters()
        self.elections: Final = ElectionCounts()
        self.loop_watch: Final = LoopWatch()
        self.cluster_id: str | None = None
        self.broker: Broker | None = None
        self.progress: str | None = STARTING
        """None: the node is running."""
        self.endpoint: Final = HttpEndpoint(
            self, executor, HttpSecurity(has_authorizer=bool(config.authorizer_class_name))
        )
        self.endpoint.publish("traffic", self._traffic)
        self.endpoint.publish("rebalances", self._rebalances)
        self.endpoint.add_metrics(self._coordinators)
        self._authorizers: Final = AuthorizerReadings(clock.monotonic)
        self.endpoint.add_metrics(self._authorizers.families)
        self._audit_families: Source = no_audit_log
        self.endpoint.add_metrics(lambda: self._audit_families())
        self.quotas: Final = QuotaReadings(clock)
        self.endpoint.add_metrics(self.quotas.families)

    async def start(self, tls: HttpTls | None = None) -> None:
        """Raises ListenError."""
        if self._address is None:
            return
        try:
            await self.endpoint.start(self._address, tls)
        except OSError as error:
            host, port = self._address
            raise ListenError(f"http.address={host}:{port}: {error.strerror or error}; choose another port") from error
        self._periodic.every("traffic rates", lambda: RATES_INTERVAL_MS, self._tick)
        if self._hot_keys is not None:
            self._periodic.every("hot keys", lambda: hot_keys.INTERVAL_MS, self._measure_hot_keys)
        self._periodic.every("metrics", lambda: MARKS_INTERVAL_MS, self._mark)
        self._watch(self._clock.monotonic())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.endpoint.stop()

    def set_quorum(self, quorum: Quorum, cluster_id: str) -> None:
        self._quorum = quorum
        self.cluster_id = cluster_id
        if self._address is not None:
            quorum.subscribe(self._on_image)

    def add_authorizer(self, role: str, authorizer: Authorizer | None) -> None:
        if authorizer is not None:
            self._authorizers.add(role, authorizer)

    def set_audit_log(self, log: "AuditLog", on_failure: Callable[[AuthenticationFailure], None]) -> None:
        self._audit_families = log.families
        self.endpoint.security.on_failure = lambda host, user, reason: on_failure(
            AuthenticationFailure(HTTP, host, "BASIC", reason, user)
        )

    # NodeView

    @property
    def quorum(self) -> QuorumDriver | None:
        return None if self._quorum is None else self._quorum.driver

    @property
    def image(self) -> ClusterImage:
        return EMPTY_IMAGE if self._quorum is None else self._quorum.image

    @property
    def is_active_controller(self) -> bool:
        return self._quorum is not None and self._quorum.controller.is_active

    @property
    def broker_state(self) -> int:
        return _BROKER_STATES[self.progress]

    def connections(self) -> Mapping[str, int]:
        return self._listeners.connection_counts()

    def authentications(self) -> Mapping[str, AuthenticationCounts]:
        return self._listeners.authentication_counts()

    def certificate_expiries_ms(self) -> Mapping[str, int]:
        return self._certificate_expiries_ms()

    def why_failed(self) -> str | None:
        return self._failed.result() if self._failed.done() else None

    def why_not_ready(self) -> str | None:
        if self.progress is not None:
            return self.progress
        registered = self.image.brokers.get(self.node_id)
        if self.broker is not None and (registered is None or registered.fenced):
            return "fenced by the controller"
        return None

    async def _coordinators(self) -> list[Family]:
        if self.broker is None or self.broker.coordinators.existing_services == (None, None):
            return []
        # Imported on first use: many brokers never coordinate anything.
        from odradek.observe.coordinator_readings import coordination_families

        return await coordination_families(self.broker.coordinators)

    async def _rebalances(self, _: HttpClient) -> dict[str, Any]:
        groups = []
        if self.broker is not None and self.broker.coordinators.existing_services[0] is not None:
            from odradek.observe.coordinator_readings import last_rebalances

            groups = await last_rebalances(self.broker.coordinators)
        return {"node": self.node_id, "cluster": self.cluster_id, "groups": groups}

    async def _traffic(self, client: HttpClient) -> dict[str, Any]:
        """Of every partition with traffic. Hot keys are part of the records: the client must be allowed to describe the
        topic."""
        rates = ((partition, self._rates.of(partition.traffic)) for partition in list(self._partitions()))
        return {
            "node": self.node_id,
            "cluster": self.cluster_id,
            "partitions": [
                {
                    "topic": partition.name.topic,
                    "partition": partition.name.partition,
                    "is_leader": partition.is_leader,
                    **{f"{name}_per_second": round(rate, 1) for name, rate in zip(RATED, found, strict=True)},
                    **self._describe_hot_keys(partition.name, client),
                }
                for partition, found in rates
                if any(found)
            ],
        }

    def _describe_hot_keys(self, name: TopicPartition, client: HttpClient) -> dict[str, Any]:
        if self._hot_keys is None or not client.may(
            Operation.DESCRIBE, ResourceType.TOPIC, name.topic, logs_denial=False
        ):
            return {}
        return self._hot_keys.describe(name)

    # Periodic

    async def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        count_elections(delta, self.elections)

    async def _tick(self) -> None:
        self._authorizers.mark()
        now = self._clock.monotonic()
        seconds, self._rates_at = now - self._rates_at, now
        if self.broker is not None and seconds > 0:
            self._rates.tick([partition.traffic for partition in self.broker.partitions().values()], seconds)

    def _partitions(self) -> Iterable[Partition]:
        return () if self.broker is None else self.broker.partitions().values()

    async def _measure_hot_keys(self) -> None:
        assert self._hot_keys is not None
        now = self._clock.monotonic()
        seconds, self._keys_at = now - self._keys_at, now
        await self._hot_keys.sample(seconds)

    async def _mark(self) -> None:
        self.loop_watch.mark()
        for kind in self.meters.kinds.values():
            kind.mark()

    def _watch(self, due: float) -> None:
        now = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        self._watching = loop.call_later(WATCH_INTERVAL_SECONDS, self._watch, now + WATCH_INTERVAL_SECONDS)
        try:
            self.loop_watch.observe(due, now, time.thread_time())
        except Exception as error:  # noqa: BLE001 - the node does not stop for a measurement
            log_fault("measurement of the event loop", error)
