"""The clients that log in to a secured node: each produces one record, and reads it again."""

import asyncio
import json
import logging
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from odradek.cli.main import run
from tests.kafka.apache_kafka import SHORT_LIVED_FLAGS, KafkaTools, ToolFailed
from tests.wire.logins import CERTIFICATE, OAUTH, Login, LoginFailed

TIMEOUT_S: Final = 20.0
VALUE: Final = b"record"
SCRIPT: Final = Path(__file__).with_name("kafkajs_login.js")

Exchange = Callable[[Login, str], bytes]
"""Produces VALUE to a topic, and returns what it reads from there. Raises LoginFailed."""


# confluent-kafka


def librdkafka_settings(login: Login) -> dict[str, str]:
    settings = {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": login.protocol,
        "ssl.ca.location": str(login.authorities),
    }
    if login.kind == CERTIFICATE:
        return settings | {"ssl.certificate.location": str(login.own), "ssl.key.location": str(login.own)}
    settings["sasl.mechanism"] = login.mechanism
    return settings if login.kind == OAUTH else settings | _user(login)


def _user(login: Login) -> dict[str, str]:
    return {"sasl.username": login.username, "sasl.password": login.password}


def confluent_exchange(login: Login, topic: str) -> bytes:
    errors: list[KafkaError] = []
    settings: dict[str, Any] = {**librdkafka_settings(login), "log_level": 0, "error_cb": errors.append}
    if login.kind == OAUTH:
        settings["oauth_cb"] = lambda _: (login.token, time.time() + 300)
    producer = Producer(settings)
    producer.produce(topic, VALUE, partition=0)
    deadline = time.monotonic() + TIMEOUT_S
    while producer.flush(0.05):
        failed = [one.str() for one in errors if one.code() == KafkaError._AUTHENTICATION or "SSL" in one.str()]
        if failed:
            producer.purge()
            raise LoginFailed(failed[0])
        assert time.monotonic() < deadline, errors
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(TIMEOUT_S)
    except KafkaException as error:
        raise AssertionError(errors) from error
    finally:
        consumer.close()
    assert message is not None, errors
    return message.value() or b""


# aiokafka and kafka-python


def _context(login: Login) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(login.authorities))
    if login.kind == CERTIFICATE:
        context.load_cert_chain(login.own)
    return context


def aiokafka_exchange(login: Login, topic: str) -> bytes:
    class Tokens(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return login.token

    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": _context(login),
    }
    if login.kind == OAUTH:
        settings |= {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": Tokens()}
    elif login.kind != CERTIFICATE:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.username,
            "sasl_plain_password": login.password,
        }

    async def work() -> bytes:
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, VALUE, partition=0)
        async with AIOKafkaConsumer(**settings) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            found: bytes = (await consumer.getone()).value
            return found

    with Logs("aiokafka") as logs:
        try:
            return asyncio.run(asyncio.wait_for(work(), TIMEOUT_S))
        except AioError as error:
            # Only its log contains the cause.
            raise LoginFailed(f"{error!r} {logs.text}") from None


class Logs(logging.Handler):
    """What a client logs while it works."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(name)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def __enter__(self) -> "Logs":
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


def kafka_python_exchange(login: Login, topic: str) -> bytes:
    class Tokens(PythonTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return login.token

    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": _context(login),
    }
    if login.kind == OAUTH:
        settings |= {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": Tokens()}
    elif login.kind != CERTIFICATE:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.username,
            "sasl_plain_password": login.password,
        }
    with Logs("kafka") as logs:
        try:
            # It tries rejected credentials again until the time is over.
            timeout_ms = 20_000 if login.is_valid else 2000
            producer = KafkaProducer(**settings, max_block_ms=timeout_ms, bootstrap_timeout_ms=timeout_ms)
            try:
                producer.send(topic, VALUE, partition=0).get(TIMEOUT_S)
            finally:
                producer.close(1)
        except PythonError as error:
            raise LoginFailed(f"{error!r} {logs.text}") from None
    consumer = KafkaConsumer(**settings)
    try:
        partition = PythonPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        (record,) = consumer.poll(timeout_ms=int(TIMEOUT_S * 1000))[partition]
        found: bytes = record.value
        return found
    finally:
        consumer.close()


# Clients in processes of their own


def _run(command: list[str], given: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT_S,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if done.returncode != 0:
        raise LoginFailed(done.stdout + done.stderr)
    return done.stdout


def kcat_exchange(login: Login, topic: str) -> bytes:
    settings = librdkafka_settings(login)
    if login.kind == OAUTH:
        # The only tokens that it can have are not signed.
        settings |= {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", *options, "-t", topic, "-p", "0"]
    _run([*command, "-P"], f"{VALUE.decode()}\n")
    return _run([*command, "-C", "-o", "beginning", "-e", "-q"]).strip().encode()


def kafkajs_exchange(modules: Path) -> Exchange:
    def exchange(login: Login, topic: str) -> bytes:
        plan: dict[str, Any] = {
            "bootstrap": login.bootstrap,
            "topic": topic,
            "value": VALUE.decode(),
            "ca": login.authorities.read_text(),
        }
        if login.kind == CERTIFICATE:
            plan["own"] = login.own.read_text()
        elif login.kind == OAUTH:
            plan |= {"mechanism": "oauthbearer", "token": login.token}
        else:
            plan |= {
                "mechanism": login.mechanism.lower(),
                "username": login.username,
                "password": login.password,
            }
        environment = {"NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
        return _run(["node", str(SCRIPT)], json.dumps(plan), environment).encode()

    return exchange


def java_exchange(libs: Path) -> Exchange:
    """Kafka's own tools. Those for records do not report a failed login, but the one for topics does."""

    def exchange(login: Login, topic: str) -> bytes:
        tools = KafkaTools(libs, login.bootstrap)
        file = login.write_properties(login.directory / "java.properties")
        common = ("--bootstrap-server", login.bootstrap, "--topic", topic, "--command-config", str(file))
        flags = (*SHORT_LIVED_FLAGS, *login.java_flags)
        try:
            tools.run("org.apache.kafka.tools.TopicCommand", *common, "--create", flags=flags)
        except ToolFailed as failed:
            raise LoginFailed(str(failed)) from None
        tools.run("org.apache.kafka.tools.ConsoleProducer", *common, standard_input=f"{VALUE.decode()}\n", flags=flags)
        reading = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
        read = tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *common, *reading, flags=flags)
        # The tool warns of its defaults, too.
        return VALUE if VALUE.decode() in read.splitlines() else read.encode()

    return exchange


def cli_exchange(capture: pytest.CaptureFixture[str]) -> Exchange:
    """The command line reads certificates from PKCS12."""

    def exchange(login: Login, topic: str) -> bytes:
        file = login.write_properties(login.directory / "cli.properties", pkcs12=True)
        common = ("--bootstrap", login.bootstrap, "--command-config", str(file))
        for command in (
            ("topic", "create", topic),
            ("produce", topic, VALUE.decode()),
            ("consume", topic, "-n", "1"),
        ):
            capture.readouterr()
            status = run([*command, *common])
            captured = capture.readouterr()
            if status != 0:
                raise LoginFailed(captured.err)
        return captured.out.strip().encode()

    return exchange
