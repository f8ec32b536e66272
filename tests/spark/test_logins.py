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
from tests import components
from tests.kerberos_realm import REALM, kerberos_realm
from tests.wire.kerberos_node import MODULE, KerberosNode
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
    return write_and_read(spark, options(spark, login, source), source, topic)


def write_and_read(spark: SparkSession, given: dict[str, str], source: str, topic: str) -> list[str]:
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


def test_sparks_connector_authenticates_with_kerberos(
    spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packages = components.require("the package gssapi", components.gssapi_packages)
    with kerberos_realm(tmp_path_factory.mktemp("realm")) as realm:
        kerberos = KerberosNode(tmp_path, realm, packages)
        try:
            kerberos.start()
            spark._jvm.java.lang.System.setProperty(  # type: ignore[union-attr]
                "java.security.krb5.conf", str(realm.config)
            )

            def given(service: str) -> dict[str, str]:
                login = f'{MODULE} keyTab="{realm.keytab("alice")}" principal="alice@{REALM}";'
                return {
                    "kafka.bootstrap.servers": kerberos.sasl_bootstrap,
                    "kafka.security.protocol": "SASL_PLAINTEXT",
                    "kafka.sasl.mechanism": "GSSAPI",
                    "kafka.sasl.kerberos.service.name": service,
                    "kafka.sasl.jaas.config": login,
                    "kafka.default.api.timeout.ms": "10000",
                    "kafka.request.timeout.ms": "5000",
                }

            realm.keytab("other/localhost")
            assert write_and_read(spark, given("kafka"), "kafka", "kerberos") == ["record"]
            with pytest.raises(Exception, match=r"invalid credentials with SASL mechanism GSSAPI"):
                spark.read.format("kafka").options(**given("other"), subscribe="kerberos").load().collect()
        finally:
            kerberos.remove()
