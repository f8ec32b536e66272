"""UpdateFeatures, versions 0 to 2. The features of a request change all together or not at all."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, UpgradeType
from odradek.core.security.resources import Operation
from odradek.quorum.apis.response_parts import NO_THROTTLE
from odradek.quorum.ports import ControllerNodePort
from odradek.server.context import RequestContext
from odradek.server.denials import find_cluster_denial
from odradek.wire.schemas import Message, Schema

_LAST_VERSION_WITH_RESULTS = 1


async def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    denial = find_cluster_denial(context, Operation.ALTER)
    if denial is not None:
        return _error_response(context.schema, denial.code, denial.message)
    return await node.controller.handle(request, context.schema, execute, build_error_response)


def execute(request: Message, messages: Schema, controller: ControllerCommands) -> ControllerResult[Message]:
    updates = {update.feature: (update.max_version_level, _upgrade_type(update)) for update in request.feature_updates}
    result = controller.update_features(updates, validate_only=getattr(request, "validate_only", False))
    if result.response is not None:
        return ControllerResult((), build_error_response(request, messages, result.response))
    results: tuple[Message, ...] = ()
    if messages.version <= _LAST_VERSION_WITH_RESULTS:
        # As in Kafka, the message of a success is the name of its error code.
        results = tuple(
            messages.new("UpdatableFeatureResult", feature=name, error_code=ErrorCode.none, error_message="NONE")
            for name in updates
        )
    response = messages.new(
        "UpdateFeaturesResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=results,
    )
    return result.with_response(response)


def build_error_response(request: Message, messages: Schema, error: KafkaError) -> Message:
    reason = f"The update failed for all features since the following feature had an error: {error.message}"
    return _error_response(messages, error.code, reason)


def _error_response(messages: Schema, code: ErrorCode, message: str | None) -> Message:
    return messages.new(
        "UpdateFeaturesResponse", throttle_time=NO_THROTTLE, error_code=code, error_message=message, results=()
    )


def _upgrade_type(update: Message) -> UpgradeType | None:
    if hasattr(update, "allow_downgrade"):
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        return None
