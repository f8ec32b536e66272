"""The security of a node's listeners and of its connections to other nodes, from its configuration."""

from collections.abc import Callable
from typing import Final

from odradek.base.ports import Clock, Executor, Random
from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.config.sasl_config import SASL_PROTOCOLS, SaslLogin
from odradek.node.sasl import NodeSasl
from odradek.server.security import UNSECURED_PEER, ListenerSecurity, PeerSecurity, SaslServer


class NodeSecurity:
    def __init__(self, config: NodeConfig, *, clock: Clock, random: Random, executor: Executor) -> None:
        self._config: Final = config
        self.sasl: Final = NodeSasl(config, clock=clock, random=random, executor=executor)

    def listener_security(self, listener: Listener) -> ListenerSecurity:
        return ListenerSecurity(protocol=listener.security_protocol, sasl=self._sasl_server(listener))

    @property
    def inter_broker(self) -> PeerSecurity:
        """Of connections to other brokers: that of the inter-broker listener."""
        name = self._config.inter_broker_listener_name
        return self._peer_security(name, self.sasl.inter_broker_login)

    @property
    def to_controllers(self) -> PeerSecurity:
        """Of connections to controllers: that of the first of `controller.listener.names`."""
        return self._peer_security(self._config.controller_listener_names[0], self.sasl.controller_login)

    def _peer_security(self, listener_name: str, find_login: Callable[[], SaslLogin]) -> PeerSecurity:
        if self._config.security_protocols.get(listener_name) not in SASL_PROTOCOLS:
            return UNSECURED_PEER
        login = find_login()
        return PeerSecurity(new_sasl_exchange=lambda: self.sasl.new_client_exchange(login), executor=self.sasl.threads)

    # SASL

    def _sasl_server(self, listener: Listener) -> SaslServer | None:
        """None: the listener's protocol is not SASL_PLAINTEXT or SASL_SSL."""
        return self.sasl.listener(listener.name) if listener.security_protocol in SASL_PROTOCOLS else None
