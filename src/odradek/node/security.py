"""The security of a node's listeners and of its connections to other nodes, from its configuration."""

from typing import Final

from odradek.config.listeners import Listener
from odradek.config.node_config import NodeConfig
from odradek.server.security import ListenerSecurity, PeerSecurity, SaslClientExchange, SaslServer


class NodeSecurity:
    def __init__(self, config: NodeConfig) -> None:
        self._config: Final = config

    def listener_security(self, listener: Listener) -> ListenerSecurity:
        return ListenerSecurity(protocol=listener.security_protocol, sasl=self._sasl_server(listener))

    @property
    def inter_broker(self) -> PeerSecurity:
        """Of connections to other brokers: that of the inter-broker listener."""
        return self._peer_security(self._config.inter_broker_listener_name)

    @property
    def to_controllers(self) -> PeerSecurity:
        """Of connections to controllers: that of the first of `controller.listener.names`."""
        return self._peer_security(self._config.controller_listener_names[0])

    def _peer_security(self, listener_name: str) -> PeerSecurity:
        return PeerSecurity(new_sasl_exchange=None)

    # SASL

    def _sasl_server(self, listener: Listener) -> SaslServer | None:
        """None: the listener's protocol is not SASL_PLAINTEXT or SASL_SSL."""
        return None

    def _new_sasl_exchange(self, listener_name: str) -> SaslClientExchange:
        """Of a connection to that listener of another node."""
        raise NotImplementedError
