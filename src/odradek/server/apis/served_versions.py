"""ApiVersions, versions 0 to 4, for any listener: the versions served there, and the cluster's feature levels.

A request of an unknown version gets UNSUPPORTED_VERSION in version 0, so that the client can choose another version.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from odradek.base.errors import ErrorCode
from odradek.core.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from odradek.core.metadata.image import ClusterImage, FeaturesImage
from odradek.server.context import RequestContext
from odradek.wire.apis import ApiKey, ServedApi
from odradek.wire.schemas import Message, schema

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions_response(
    request: Message, context: RequestContext, apis: Mapping[int, ServedApi], image: ClusterImage
) -> Message:
    if context.version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return context.new(
            "ApiVersionsResponse", error_code=ErrorCode.invalid_request, api_keys=(), throttle_time=timedelta(0)
        )
    return context.new(
        "ApiVersionsResponse",
        error_code=ErrorCode.none,
        api_keys=tuple(
            context.new("ApiVersion", api_key=api.key, min_version=api.low, max_version=api.high)
            for api in apis.values()
        ),
        throttle_time=timedelta(0),
        supported_features=_supported_features(context),
        finalized_features_epoch=image.offset,
        finalized_features=_finalized_features(context, image.features),
        zk_migration_ready=False,
    )


def _supported_features(context: RequestContext) -> tuple[Message, ...]:
    if context.version < 3:
        return ()
    return tuple(
        context.new("SupportedFeatureKey", name=name, min_version=low, max_version=high)
        for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        # Clients below version 4 cannot read a range that starts at zero.
        if context.version >= 4 or low > 0
    )


def _finalized_features(context: RequestContext, features: FeaturesImage) -> tuple[Message, ...]:
    if context.version < 3:
        return ()
    levels = dict(features.levels)
    if features.kraft_version > 0:
        levels[KRAFT_VERSION] = features.kraft_version
    return tuple(
        context.new("FinalizedFeatureKey", name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(levels.items())
    )


def unsupported_version_response(apis: Mapping[int, ServedApi]) -> bytes:
    messages = schema(ApiKey.API_VERSIONS, 0)
    own = apis[ApiKey.API_VERSIONS]
    return messages.write(
        messages.new(
            "ApiVersionsResponse",
            error_code=ErrorCode.unsupported_version,
            api_keys=(messages.new("ApiVersion", api_key=own.key, min_version=own.low, max_version=own.high),),
        )
    )
