"""BrokerRegistration, versions 0 to 4.

Difference from Kafka: a broker whose registered process is dead is registered at once, without waiting for the old
session to expire.
"""

import logging

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH, ZERO_UUID
from odradek.core.controller.commands import ControllerCommands, ControllerResult, Registration
from odradek.core.security.resources import Operation
from odradek.quorum.apis.registration_parts import endpoints_of, features_of
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import NO_CONNECTION, RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

_FIRST_VERSION_WITH_PREVIOUS_EPOCH = 3


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    denial = find_cluster_denial(context, Operation.CLUSTER_ACTION)
    if denial is not None:
        return build_error_response(request, context.schema, denial)
    registration = registration_of(request, context.schema)
    peer_host = None if context.connection is NO_CONNECTION else context.peer_host
    dead_process = await node.find_dead_process(registration, peer_host)
    registration = registration._replace(dead_process=dead_process)

    def execute_now(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
        return execute(registration, messages, controller, node.clock.monotonic())

    return await node.controller.handle(request, context.schema, execute_now, build_error_response)


def registration_of(request: Message, messages: Schema) -> Registration:
    return Registration(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id or ZERO_UUID,
        endpoints=endpoints_of(request),
        features=features_of(request),
        rack=request.rack,
        is_migrating_zk_broker=getattr(request, "is_migrating_zk_broker", False),
        directories=tuple(directory or ZERO_UUID for directory in getattr(request, "log_dirs", ())),
        previous_broker_epoch=getattr(request, "previous_broker_epoch", NO_EPOCH),
        detects_unclean_shutdown=messages.version >= _FIRST_VERSION_WITH_PREVIOUS_EPOCH,
    )


def execute(
    registration: Registration, messages: Schema, controller: ControllerCommands, now: float
) -> ControllerResult[Message]:
    result = controller.register_broker(registration, now)
    response = messages.new(
        "BrokerRegistrationResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        broker_epoch=result.response,
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    if error.message is not None:
        # The response has no field for the reason, so both sides log it.
        logger.warning("Broker registration rejected: brokerId=%d, reason=%s", request.broker_id, error.message)
    return messages.new(
        "BrokerRegistrationResponse", throttle_time=NO_THROTTLE, error_code=error.code, broker_epoch=NO_EPOCH
    )
