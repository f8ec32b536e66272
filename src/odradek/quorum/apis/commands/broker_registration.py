"""BrokerRegistration, versions 0 to 4.

Difference from Kafka: a broker that comes back with the directories of the registered one is let in at once, without
waiting for the old session to end.
"""

import logging

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH, ZERO_UUID
from odradek.core.controller.commands import ControllerCommands, Registration
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands import offered
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

_FIRST_VERSION_WITH_PREVIOUS_EPOCH = 3


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    registration = Registration(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id or ZERO_UUID,
        endpoints=offered.endpoints(request),
        features=offered.features(request),
        rack=request.rack,
        is_migrating_zk_broker=getattr(request, "is_migrating_zk_broker", False),
        directories=tuple(directory or ZERO_UUID for directory in getattr(request, "log_dirs", ())),
        previous_broker_epoch=getattr(request, "previous_broker_epoch", NO_EPOCH),
        detects_unclean_shutdown=messages.version >= _FIRST_VERSION_WITH_PREVIOUS_EPOCH,
    )
    decision = controller.register_broker(registration, now)
    response = messages.new(
        "BrokerRegistrationResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        broker_epoch=decision.response,
    )
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    if error.message is not None:
        # The response has no room for the reason: whoever looks for it finds it on both sides.
        logger.warning("broker %d is not registered: %s", request.broker_id, error.message)
    return messages.new(
        "BrokerRegistrationResponse", throttle_time=NO_THROTTLE, error_code=error.code, broker_epoch=NO_EPOCH
    )
