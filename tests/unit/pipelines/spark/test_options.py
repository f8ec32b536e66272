"""The connector's options mean what they mean there; what is wrong is said in a sentence."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.security import Sasl, Tls
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    ReadOptions,
    client_options,
    exactly_once_options,
    read_options,
)
from odradek.pipelines.spark.row_schema import row_schema
from odradek.pipelines.spark.source import OdradekSource
from odradek.pipelines.spark.topics import open_cluster
from odradek.pipelines.spark.version_check import VersionMismatch

pytestmark = pytest.mark.needs("pyspark")

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def batch(**options: str) -> ReadOptions:
    return read_options(SERVERS | {"subscribe": "orders"} | options, streaming=False)


def stream(**options: str) -> ReadOptions:
    return read_options(SERVERS | {"subscribe": "orders"} | options, streaming=True)


def test_default_read_options() -> None:
    assert batch().start == Bound(EARLIEST, {})
    assert batch().end == Bound(LATEST, {})
    assert stream().start == Bound(LATEST, {})
    assert batch().fail_on_data_loss
    assert not batch().read_committed
    assert batch().client.bootstrap_servers == "localhost:9092"


def test_subscriptions() -> None:
    assert batch(subscribe="a, b,a").topics == ("a", "b")
    assigned = read_options(SERVERS | {"assign": '{"a": [1, 0], "b": [2]}'}, streaming=False)
    assert assigned.assigned == (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2))
    assert read_options(SERVERS | {"subscribepattern": "a.*"}, streaming=False).pattern == "a.*"


def test_bounds() -> None:
    by_offset = batch(startingoffsets='{"orders": {"0": 23, "1": -2}}', endingoffsets='{"orders": {"0": 50, "1": -1}}')
    assert by_offset.start.by_partition == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
    assert by_offset.end.by_partition == {TopicPartition("orders", 0): 50, TopicPartition("orders", 1): LATEST}
    by_time = batch(startingtimestamp="1700000000000", startingoffsets="earliest")
    assert by_time.start == Bound(1_700_000_000_000, {}, is_timestamp=True)
    assert batch(endingtimestamp="5").end.missing_is_latest
    assert stream(maxtriggerdelay="2m").trigger_delay_s_max == 120


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": ""}, "Set exactly one of the options"),
        ({"assign": "{}"}, "Set exactly one of the options"),
        ({"startingoffsets": "latest"}, "cannot start at latest"),
        ({"endingoffsets": "earliest"}, "cannot end at earliest"),
        ({"startingoffsets": "newest"}, "is not valid JSON"),
        ({"startingoffsets": '{"orders": 7}'}, "must have the form"),
        ({"minpartitions": "0"}, "is not an integer"),
        ({"failondataloss": "yes"}, "Use true or false"),
        ({"maxoffsetspertrigger": "5", "minoffsetspertrigger": "6"}, "greater than"),
        ({"kafka.auto.offset.reset": "latest"}, "Use startingOffsets"),
        ({"kafka.isolation.level": "serializable"}, "Use read_committed"),
        ({"kafka.security.protocol": "SASL"}, "unknown protocol"),
        ({"kafka.security.protocol": "SASL_SSL"}, "GSSAPI is not supported"),
        ({"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}, "PlainLoginModule required"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "BKS"}, "is not supported"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.keystore.key": "…"}, "set both"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"maxtriggerdelay": "soon"}, "duration such as 15m"),
    ],
)
def test_invalid_options(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        batch(**options)


def test_columns() -> None:
    assert row_schema({}).names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert row_schema({"includeheaders": "true"}).names[-1] == "headers"
    assert row_schema({"columns": "offset, value"}).names == ["offset", "value"]
    with pytest.raises(OptionError, match="unknown column 'valeu'"):
        row_schema({"columns": "valeu"})


def test_option_names_are_case_insensitive_and_schemas_fixed() -> None:
    source = OdradekSource({"Kafka.Bootstrap.Servers": "localhost:9092", "SUBSCRIBE": "a", "Columns": "value"})
    source.reader(source.schema())
    with pytest.raises(OptionError, match="cannot be read from a topic"):
        source.reader(source.schema().add("price", "integer"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("key string", "need a column named value"),
        ("value string", "need a column named topic"),
        ("value integer, topic string", "value has type int"),
        ("value string, topic string, price integer", "price is not part of a record"),
        ("value string, topic string, partition long", "partition has type bigint"),
    ],
)
def test_rows_that_cannot_be_records_are_rejected(columns: str, said: str) -> None:
    from pyspark.sql.types import StructType

    schema: Any = StructType()
    for column in columns.split(", "):
        schema = schema.add(*column.split(" "))
    with pytest.raises(OptionError, match=said):
        OdradekSource(dict(SERVERS)).writer(schema, False)


def test_security_options() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "sasl_ssl",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{module} required username=anna password="with \\" and; \\\\";',
        "kafka.ssl.truststore.location": "authorities.pem",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }
    security = client_options(options).security
    assert security.sasl == Sasl(mechanism="SCRAM-SHA-512", username="anna", password='with " and; \\')
    assert security.tls == Tls(authorities_file="authorities.pem", checks_host=False)
    assert "and;" not in repr(security)


def test_a_version_mismatch_is_an_error() -> None:
    client = client_options({"kafka.bootstrap.servers": "localhost:9092"})
    other = replace(client, version="0.0.1")
    with pytest.raises(
        VersionMismatch, match=r"This executor has odradek .* but the driver has 0\.0\.1\. Install the same"
    ):
        open_cluster(other, is_known=True)
    open_cluster(client, is_known=True).close()


def test_exactly_once_options() -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092"}
    assert exactly_once_options(options, streaming=True) is None
    options["kafka.transactional.id"] = "totals"
    found = exactly_once_options(options | {"decisiontopic": "here"}, streaming=True)
    assert found is not None and (found.sink, found.decision_topic, found.timeout_ms) == ("totals", "here", None)
    for name in ("", "totals.task.1"):
        with pytest.raises(OptionError, match="must not be empty or contain"):
            exactly_once_options(options | {"kafka.transactional.id": name}, streaming=True)
    numbered = options | {"queryid": "mine", "batchid": "0"}
    found = exactly_once_options(numbered, streaming=False)
    assert found is not None and (found.query, found.batch) == ("mine", 0)
    with pytest.raises(OptionError, match="batchId is not allowed in streaming queries"):
        exactly_once_options(numbered, streaming=True)
    for alone in ("queryid", "batchid"):
        with pytest.raises(OptionError, match="Set queryId and batchId together"):
            exactly_once_options(options | {alone: "7"}, streaming=False)
