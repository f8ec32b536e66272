"""The versions of an API that controllers serve."""

from odradek.wire.apis import CONTROLLER_APIS, ApiKey


def versions_of(api_key: ApiKey) -> range:
    api = CONTROLLER_APIS[api_key]
    return range(api.low, api.high + 1)
