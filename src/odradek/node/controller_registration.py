"""Registers this controller's endpoints and features with the active controller, until the metadata contain them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from odradek.base.background import start_task
from odradek.base.backoff import backoff_seconds
from odradek.base.errors import ErrorCode
from odradek.base.ports import ControllerPort, Random
from odradek.config.listeners import Listener
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.features import IV_3_7_CONTROLLER_REGISTRATION, METADATA_VERSION
from odradek.core.metadata.image import ClusterImage
from odradek.wire.apis import ApiKey
from odradek.wire.offered import offered_features, offered_listeners
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

CONTROLLER_REGISTRATION: Final = (ApiKey.CONTROLLER_REGISTRATION, 0)
RETRY_SECONDS_MAX: Final = 120.0


class OwnRegistration:
    def __init__(
        self,
        node_id: int,
        controller: ControllerPort,
        *,
        endpoints: Sequence[Listener],
        incarnation_id: UUID,
        random: Random,
    ) -> None:
        self._node_id: Final = node_id
        self._controller: Final = controller
        self._endpoints: Final = tuple(endpoints)
        self._incarnation_id: Final = incarnation_id
        self._random: Final = random
        self._is_registered = False
        self._registering: asyncio.Task[None] | None = None

    def start(self, image: ClusterImage) -> None:
        if image.features.metadata_version < IV_3_7_CONTROLLER_REGISTRATION:
            return
        own = image.controllers.get(self._node_id)
        self._is_registered = own is not None and own.incarnation_id == self._incarnation_id
        if not self._is_registered and self._registering is None:
            self._registering = start_task("controller registration", self._register())

    async def on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if self._node_id in delta.controllers_changed or METADATA_VERSION in delta.features_changed:
            self.start(image)

    def stop(self) -> None:
        if self._registering is not None:
            self._registering.cancel()

    async def _register(self) -> None:
        failures = 0
        try:
            while not self._is_registered:
                response = await self._controller.handle(*CONTROLLER_REGISTRATION, self._request())
                if response.error_code is ErrorCode.none:
                    # The image will contain it; if it ever differs, the registration starts again.
                    return
                failures += 1
                if failures == 1:
                    name = response.error_code.name.upper()
                    logger.warning("Controller registration failed, retrying: %s", response.error_message or name)
                await asyncio.sleep(backoff_seconds(failures, RETRY_SECONDS_MAX, self._random))
        finally:
            self._registering = None

    def _request(self) -> Message:
        messages = schema(*CONTROLLER_REGISTRATION)
        return messages.new(
            "ControllerRegistrationRequest",
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=offered_listeners(messages, self._endpoints),
            features=offered_features(messages),
        )
