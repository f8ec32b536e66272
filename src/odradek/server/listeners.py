"""The listeners of a node: those for clients, and those of the controller quorum.

The controller listeners have connection limits of their own, so that clients cannot block the quorum.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.base.background import log_fault
from odradek.base.ports import Clock, Executor
from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.listener_overrides import listener_value
from odradek.config.listeners import Listener as Address
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.image import ClusterImage
from odradek.core.quotas.connections import UNLIMITED, ConnectionRates
from odradek.core.quotas.entities import CONNECTION_CREATION_RATE, IP, limits_of
from odradek.instruments.authentication import AuthenticationCounts
from odradek.server.connection import Dispatcher
from odradek.server.limits import NodeConnectionLimits, limits_by_address, limits_by_name
from odradek.server.periodic import Periodic
from odradek.server.reachability import Reachability
from odradek.server.response_sender import Streaming
from odradek.server.security import ListenerSecurity
from odradek.server.server import Listener
from odradek.server.tls_connection import Handshakes

CLOSE_IDLE_INTERVAL_MS: Final = 10_000
_RATE: Final = "max.connection.creation.rate"


class NodeListeners:
    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        executor: Executor,
        periodic: Periodic,
        *,
        security_of: Callable[[Address], ListenerSecurity],
    ) -> None:
        self._config: Final = config
        self._security_of: Final = security_of
        self._handshakes: Final = Handshakes(executor, clock.monotonic)
        self._streaming: Final = Streaming(executor)
        self._periodic: Final = periodic
        privileged = config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None
        self._client_limits: Final = _limits(config, clock, privileged)
        self._quorum_limits: Final = _limits(config, clock, None)
        self._clients: Final[list[Listener]] = []
        self._quorum: Final[list[Listener]] = []
        self._overrides: Mapping[str, int] = {}
        self._address_rates: Mapping[str, int] = {}
        self._set_rates(config)

    async def bind(self) -> None:
        """Binds the addresses; connections are refused until `serve_quorum` and `serve_clients`. Raises ListenError."""
        for address in self._config.broker_listeners:
            await self._bind(address, self._clients, self._client_limits)
        for address in self._config.controller_listeners:
            await self._bind(address, self._quorum, self._quorum_limits)

    async def _bind(self, address: Address, listeners: list[Listener], limits: NodeConnectionLimits) -> None:
        config = self._config
        listener = Listener(
            address.name,
            address.host,
            address.port,
            limits,
            self._streaming,
            request_bytes_max=config.socket_request_max_bytes,
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            security=self._security_of(address),
            handshakes=self._handshakes,
        )
        listeners.append(listener)
        await listener.bind()

    async def serve_quorum(self, dispatcher: Dispatcher) -> None:
        for listener in self._quorum:
            await listener.serve(dispatcher)

    async def serve_clients(self, dispatcher: Dispatcher) -> None:
        for listener in self._clients:
            await listener.serve(dispatcher)

    def start_periodic_tasks(self) -> None:
        self._periodic.every("idle connections", self._close_idle_interval_ms, self._close_idle)
        for listener, advertised in zip(self._clients, self.advertised_listeners(), strict=True):
            reachability = Reachability(listener.name, advertised.host, advertised.port)
            listener.on_client(reachability.on_client)
            self._periodic.once("reachability check", reachability.check(), log_fault)

    def stop(self) -> None:
        """Stops accepting connections and closes the open ones."""
        self.stop_clients()
        _stop(self._quorum, self._quorum_limits)

    def stop_clients(self) -> None:
        _stop(self._clients, self._client_limits)

    # Advertised addresses. A port of 0 stands for the port that the system chose.

    def advertised_listeners(self) -> list[Address]:
        return _with_ports(self._config.advertised_listeners, self._clients)

    def advertised_controller_listeners(self) -> list[Address]:
        return _with_ports(self._config.advertised_controller_listeners, self._quorum)

    def authentication_counts(self) -> dict[str, AuthenticationCounts]:
        """By listener name, of those with SASL."""
        found = {one.name: one.authentication_counts for one in (*self._clients, *self._quorum)}
        return {name: counts for name, counts in found.items() if counts is not None}

    def connection_counts(self) -> dict[str, int]:
        """By listener name."""
        counts = {listener.name: 0 for listener in (*self._clients, *self._quorum)}
        for limits in (self._client_limits, self._quorum_limits):
            for connection in limits.connections():
                counts[connection.listener_name] += 1
        return counts

    # Limits

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.client_quotas_changed:
            self.set_client_quotas(image)

    def set_client_quotas(self, image: ClusterImage) -> None:
        """Applies `connection_creation_rate` of addresses."""
        rates = {
            dict(entity).get(IP): int(min(limit, UNLIMITED))
            for entity, limit in limits_of(image.client_quotas, CONNECTION_CREATION_RATE).items()
        }
        other_max = rates.get(None, UNLIMITED)
        self._address_rates = named = {host: limit for host, limit in rates.items() if host is not None}
        known = limits_by_address(named)
        self._set_address_rates(known, other_max)
        if len(known) < len(named):
            self._periodic.once("connection rates", self._resolve_rates(named, other_max), log_fault)

    async def _resolve_rates(self, named: Mapping[str, int], other_max: int) -> None:
        resolved = await limits_by_name(named, CONNECTION_CREATION_RATE)
        if self._address_rates is named:
            self._set_address_rates({**resolved, **limits_by_address(named)}, other_max)

    def _set_address_rates(self, rates: Mapping[str, int], other_max: int) -> None:
        for limits in (self._client_limits, self._quorum_limits):
            limits.rates.change_addresses(rates, other_max)

    def _set_rates(self, config: NodeConfig) -> None:
        for limits, addresses in (
            (self._client_limits, config.broker_listeners),
            (self._quorum_limits, config.controller_listeners),
        ):
            limits.rates.change(
                node_max=config.max_connection_creation_rate,
                listener_max={one.name: _connection_rate(config, one.name) for one in addresses},
            )

    def on_config(self, config: NodeConfig) -> None:
        self._overrides = overrides = config.max_connections_per_ip_overrides
        known = limits_by_address(overrides)
        self._client_limits.change(
            connections_max=config.max_connections,
            per_address_max=config.max_connections_per_ip,
            per_address_overrides=known,
        )
        self._set_rates(config)
        if len(known) < len(overrides):
            self._periodic.once("connection limits", self._resolve_limits(overrides), log_fault)

    async def _resolve_limits(self, overrides: Mapping[str, int]) -> None:
        resolved = await limits_by_name(overrides)
        if self._overrides == overrides:
            self._client_limits.per_address_overrides = {**resolved, **limits_by_address(overrides)}

    def _close_idle_interval_ms(self) -> int:
        idle_ms_max = self._config.connections_max_idle_ms
        return CLOSE_IDLE_INTERVAL_MS if idle_ms_max < 0 else min(CLOSE_IDLE_INTERVAL_MS, max(idle_ms_max // 4, 100))

    async def _close_idle(self) -> None:
        for limits in (self._client_limits, self._quorum_limits):
            limits.close_idle()


def _stop(listeners: Sequence[Listener], limits: NodeConnectionLimits) -> None:
    for listener in listeners:
        listener.stop_accepting()
    for connection in limits.connections():
        connection.close()


def _limits(config: NodeConfig, clock: Clock, privileged_listener: str | None) -> NodeConnectionLimits:
    return NodeConnectionLimits(
        clock,
        connections_max=config.max_connections,
        per_address_max=config.max_connections_per_ip,
        per_address_overrides={},
        idle_ms_max=config.connections_max_idle_ms,
        waiting_max=config.socket_listen_backlog_size,
        privileged_listener=privileged_listener,
        rates=ConnectionRates(
            config.quota_window_num,
            config.quota_window_size_seconds * 1000,
            privileged_listener=privileged_listener,
        ),
    )


def _connection_rate(config: NodeConfig, listener_name: str) -> int:
    text = listener_value(config.effective_values, listener_name, _RATE)
    value = config.max_connection_creation_rate if text is None else BROKER_CONFIGS[_RATE].parse(text)
    assert isinstance(value, int)
    return value


def _with_ports(addresses: Sequence[Address], listeners: Sequence[Listener]) -> list[Address]:
    ports = {listener.name: listener.port for listener in listeners}
    return [
        one._replace(host=one.host or socket.getfqdn(), port=one.port or ports.get(one.name, 0)) for one in addresses
    ]
