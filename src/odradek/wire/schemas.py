"""The messages of one version of an API: decoding, encoding, and building messages once for all versions.

kio has a class per message and version. Handlers are written once, so `Schema.new` builds the class of the requested
version and drops the fields that it does not have. Modules are imported on first use: importing all of them takes
longer than the start of a node.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from kio.schema.index import api_key_map
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from odradek.base.message_walk import ANY_NUMBER, UnreadableMessage, checked_reader, message_walk
from odradek.base.message_writer import message_writer
from odradek.base.slices import Slices
from odradek.wire.sliced_reading import message_slices

__all__ = ["Message", "MessageClass", "Schema", "SerialError", "is_large", "parts_of", "schema"]

PARTS_ON_LOOP_MAX: Final = 2000
# In all arrays of one response. A topic with ten thousand partitions needs several per partition.
RESPONSE_ELEMENTS_MAX: Final = 1_000_000

# Replaces kio's classes that cannot represent everything that Kafka sends.
_OWN_FORMS: Final = {("describe_transactions", 0, "response"): "odradek.wire.describe_transactions_form"}

# Their timestamps and durations are plain milliseconds, which may be -1 or too large for a datetime.
_PLAIN_NUMBERS: Final = frozenset({"create_delegation_token", "renew_delegation_token", "expire_delegation_token"})

# A kio entity of any version: its fields are accessed by name.
Message = Any


class MessageClass:
    """Builds a message class from the fields of any version: it drops those that the class does not have."""

    __slots__ = ("cls", "known")

    def __init__(self, cls: type) -> None:
        self.cls: Final = cls
        self.known: Final = frozenset(field.name for field in fields(cls))

    def __call__(self, **values: object) -> Message:
        known = self.known
        if len(values) == len(known) and values.keys() == known:
            return self.cls(**values)
        return self.cls(**{name: value for name, value in values.items() if name in known})


class Schema:
    """Request and response of one API version."""

    def __init__(self, api_key: int, version: int) -> None:
        # A plain number: it is packed into the header of every request.
        self.api_key: Final = int(api_key)
        self.version: Final = version
        self._name: Final = api_key_map[api_key]
        self._classes: dict[str, MessageClass] = {}
        self._request_classes: dict[str, MessageClass] = {}
        self.flexible: Final[bool] = self.request_type.__flexible__
        self.response_header_flexible: Final[bool] = self.response_type.__header_schema__.__flexible__
        self._walk_request: Final = message_walk(self.request_type)
        self._read_request: Final[Callable[[Any, int], tuple[Message, int]]] = entity_reader(self.request_type)
        self.read_response: Final[Callable[[Any, int], tuple[Message, int]]] = entity_reader(self.response_type)

    def read_request(self, data: bytes, offset: int) -> tuple[Message, int]:
        """The request that starts at `offset`, and its size. Raises SerialError if it is invalid."""
        try:
            return self._read_request(self._walk_request(data, offset), offset)
        except ValueError as error:
            # For example a duration of more than a billion days.
            raise UnreadableMessage(str(error)) from error

    def request_slices(self, data: bytes, offset: int, elements_max: int = ANY_NUMBER) -> Slices[Message]:
        """Decodes a large request. The slices raise SerialError if it is invalid or has too many elements."""
        return self._request_slices(data, offset, elements_max)

    @cached_property
    def _request_slices(self) -> Callable[[bytes, int, int], Slices[Message]]:
        return message_slices(self.request_type)

    @cached_property
    def read_foreign_response(self) -> Callable[[bytes | memoryview, int], Message]:
        """The response that starts at an offset, from a node that is not trusted. Raises SerialError."""
        return checked_reader(self.response_type, RESPONSE_ELEMENTS_MAX)

    @cached_property
    def read_response_in_place(self) -> Callable[[memoryview, int], Message]:
        """The response that starts at an offset of a frame, which is not copied. Raises SerialError.

        Only the response itself bounds the number of elements: a client may describe millions of partitions.
        """
        return checked_reader(self.response_type)

    def _module(self, side: str) -> ModuleType:
        own = _OWN_FORMS.get((self._name, self.version, side))
        name = own or f"kio.schema.{self._name}.v{self.version}.{side}"
        return _module_with_plain_numbers(name) if self._name in _PLAIN_NUMBERS else import_module(name)

    @property
    def request_type(self) -> Any:
        return getattr(self._module("request"), _class_name(self._name, "Request"))

    @property
    def response_type(self) -> Any:
        return getattr(self._module("response"), _class_name(self._name, "Response"))

    def __getitem__(self, class_name: str) -> MessageClass:
        """The class of this name in the response, or else in the request.

        Raises LookupError for a class that this version does not have: check with `knows`.
        """
        found = self._classes.get(class_name)
        if found is None:
            found = self._classes[class_name] = MessageClass(self._find(class_name))
        return found

    @property
    def api_name(self) -> str:
        """As Kafka writes it: ListOffsets."""
        return _class_name(self._name, "")

    def knows(self, class_name: str) -> bool:
        return hasattr(self._module("response"), class_name) or hasattr(self._module("request"), class_name)

    def _find(self, class_name: str) -> type:
        for side in ("response", "request"):
            found = getattr(self._module(side), class_name, None)
            if isinstance(found, type):
                return found
        raise LookupError(f"{self._name} v{self.version} has no message {class_name}")

    def new(self, class_name: str, **values: object) -> Message:
        return self[class_name](**values)

    def new_in_request(self, class_name: str, **values: object) -> Message:
        """As `new`, for a part of a request whose name also exists in the response."""
        found = self._request_classes.get(class_name)
        if found is None:
            found = self._request_classes[class_name] = MessageClass(getattr(self._module("request"), class_name))
        return found(**values)

    def prepare(self) -> None:
        """Compiles the codecs in advance, so that the first request does not wait for it."""
        _ = self.read_foreign_response
        for message_type in (self.request_type, self.response_type):
            message_writer(message_type)

    def write(self, entity: Message) -> bytes:
        out = bytearray()
        message_writer(type(entity))(out, entity)
        return bytes(out)


def is_large(response: Message) -> bool:
    """Whether encoding it would block the event loop. Estimated from the first element of each array."""
    return parts_of(response) > PARTS_ON_LOOP_MAX


def parts_of(entity: Message) -> int:
    """The number of structures, strings and numbers in its arrays, and itself."""
    count = 1
    for name in getattr(entity, "__slots__", ()):
        value = getattr(entity, name)
        if value.__class__ is tuple and value:
            count += len(value) * parts_of(value[0])
    return count


def _class_name(api_name: str, side: str) -> str:
    return "".join(part.capitalize() for part in api_name.split("_")) + side


@cache
def _module_with_plain_numbers(name: str) -> ModuleType:
    from odradek.wire.plain_numbers import with_plain_numbers  # few nodes serve these APIs

    return with_plain_numbers(import_module(name))


@cache
def schema(api_key: int, version: int) -> Schema:
    """Raises KeyError for an unknown API and ModuleNotFoundError for an unknown version."""
    return Schema(api_key, version)
