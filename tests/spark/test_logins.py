"""Spark's own Kafka connector and `format("odradek")` with every kind of credentials."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.runtime.session import spark_session
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.wire.logins import KINDS, OAUTH, Login, LoginNode, login_node

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.tier("proof")]

REJECTED = r"Authentication failed|invalid_token|certificate|SSL|TLS"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    with login_node(tmp_path_factory.mktemp("logins")) as node:
        yield node


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_jars: tuple[Path, ...]) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    with spark_session("logins", spark_jars, directory / "work", directory / "spark.log") as session:
        yield session


def options(spark: SparkSession, login: Login, source: str) -> dict[str, str]:
    if login.kind == OAUTH:
        # Kafka's clients read tokens only from places that the JVM allows.
        system = spark._jvm.java.lang.System  # type: ignore[union-attr]
        for kind in ("urls", "files"):
            system.setProperty(f"org.apache.kafka.sasl.oauthbearer.allowed.{kind}", login.token_file.as_uri())
    # Key stores of Java for the one that is not Java.
    properties = login.properties(pkcs12=source == "odradek") | {"bootstrap.servers": login.bootstrap}
    return {f"kafka.{name}": value for name, value in properties.items()}


def exchange(spark: SparkSession, login: Login, source: str, topic: str) -> list[str]:
    given = options(spark, login, source)
    record = spark.createDataFrame([("record",)], "value string")
    record.write.format(source).options(**given, topic=topic).mode("append").save()
    rows = spark.read.format(source).options(**given, subscribe=topic).load()
    return [row.value for row in rows.selectExpr("cast(value as string) as value").collect()]


@pytest.mark.parametrize("source", ["kafka", "odradek"])
@pytest.mark.parametrize("kind", KINDS)
def test_spark_authenticates_and_is_rejected_with_wrong_credentials(
    spark: SparkSession, node: LoginNode, source: str, kind: str
) -> None:
    topic = re.sub(r"\W", "-", f"{source}-{kind}")
    with Cluster(parse_bootstrap(node.broker.bootstrap)) as cluster:
        Admin(cluster).create_topic(topic, partitions=1, replication_factor=1)
    assert exchange(spark, node.login(kind), source, topic) == ["record"]
    wrong = node.wrong_login(kind)
    # Reading alone: a producer of the connector would retry for two minutes.
    given = options(spark, wrong, source) | {
        "kafka.default.api.timeout.ms": "10000",
        "kafka.request.timeout.ms": "5000",
    }
    with pytest.raises(Exception, match=REJECTED):
        spark.read.format(source).options(**given, subscribe=topic).load().collect()
