"""Starts a local Spark Connect server for one run, with a persistent catalog."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from odradek.pipelines.jobs.session import spark_session

_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"


@contextlib.contextmanager
def connect_server(
    name: str, *, master: str, log_file: Path, conf: Mapping[str, str], metastore: Path, warehouse: Path
) -> Iterator[str]:
    """Yield the server's URL. The server requires a token and listens on the loopback interface only."""
    token = secrets.token_urlsafe()
    settings = {
        "spark.plugins": _PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        # As in PySpark: every session has its own classes and files.
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        # Otherwise the next run would find the files of tables that its catalog does not know.
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore.absolute()};create=true",
        "spark.sql.warehouse.dir": str(warehouse.absolute()),
    }
    with spark_session(name, master=master, log_file=log_file, conf=settings | dict(conf)) as session:
        service = getattr(cast(Any, session)._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
        port = getattr(service, "MODULE$").localPort()
        # Without TLS, PySpark sends a token only to localhost.
        yield f"sc://localhost:{port}/;token={token}"
