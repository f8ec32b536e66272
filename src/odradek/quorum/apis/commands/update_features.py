"""UpdateFeatures, versions 0 to 2. All features of a request change together, or none."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands, UpgradeType
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE
from odradek.wire.schemas import Message, Schema

_LAST_VERSION_WITH_RESULTS = 1


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    updates = {update.feature: (update.max_version_level, _upgrade_type(update)) for update in request.feature_updates}
    decision = controller.update_features(updates, validate_only=getattr(request, "validate_only", False))
    if decision.response is not None:
        return Decision((), refuse(request, messages, decision.response))
    results: tuple[Message, ...] = ()
    if messages.version <= _LAST_VERSION_WITH_RESULTS:
        # Kafka puts the name of its error code where there is no error.
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
    return decision.answered(response)


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    reason = f"The update failed for all features since the following feature had an error: {error.message}"
    return messages.new(
        "UpdateFeaturesResponse",
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        error_message=reason,
        results=(),
    )


def _upgrade_type(update: Message) -> UpgradeType | None:
    if hasattr(update, "allow_downgrade"):
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        return None
