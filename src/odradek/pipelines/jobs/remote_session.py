"""A session on a Spark Connect server, without local Java. Imports PySpark's client."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from pyspark.errors import PySparkException, PySparkValueError
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as RemoteSparkSession

from odradek.pipelines.jobs.broker_options import HIDDEN_OPTIONS
from odradek.pipelines.jobs.session import without_secrets
from odradek.text.errors import UserError, as_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark's functions check this to create columns for the right kind of session.
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_CONNECT_TIMEOUT_S: Final = 10.0


@contextlib.contextmanager
def remote_session(url: str, conf: Mapping[str, str]) -> "Iterator[SparkSession]":
    _check_reachable(url)
    before = os.environ.get(_MODE)
    os.environ[_MODE] = "1"
    try:
        session = RemoteSparkSession.builder.remote(url).create()
        try:
            for name, text in ({"spark.sql.session.timeZone": "UTC"} | HIDDEN_OPTIONS | dict(conf)).items():
                _set(session, name, text)
            yield cast("SparkSession", session)
        finally:
            session.stop()
    finally:
        if before is None:
            del os.environ[_MODE]
        else:
            os.environ[_MODE] = before


def _check_reachable(url: str) -> None:
    """Fail early: PySpark would retry for ten minutes."""
    try:
        endpoint = DefaultChannelBuilder(url).endpoint
    except PySparkValueError as error:
        raise UserError(as_sentence(f"--remote {without_secrets(url)!r}: {error.getMessage() or error}")) from None
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise UserError(
            f"Cannot connect to a Spark Connect server at {endpoint} ({error.strerror or error}). Start the server, or "
            "choose another with --remote."
        ) from None


def _set(session: RemoteSparkSession, name: str, text: str) -> None:
    try:
        session.conf.set(name, text)
    except PySparkException as error:
        if error.getCondition() not in ("CANNOT_MODIFY_STATIC_CONFIG", "CANNOT_MODIFY_CONFIG"):
            raise
        raise UserError(f"--conf {name}: only the server can set this, when it starts. Remove it.") from None
