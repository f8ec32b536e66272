"""`odradek job`: Spark jobs between topics, tables and files, run by `odradek.pipelines.jobs`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from odradek.cli.job_options import (
    DEFAULT_MASTER,
    BatchRecords,
    Conf,
    From,
    Interval,
    Master,
    Remote,
    SkipLost,
    spark_settings,
)
from odradek.cli.job_rewrite import KeysAs, erased_keys, rewrite, rewrite_name, switch
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.cli.produce import Codec
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat

app = typer.Typer(no_args_is_help=True, help="Run Spark jobs between topics and tables, with exactly-once delivery.")

To = Annotated[
    str | None,
    typer.Option("--to", "-t", metavar="POSITION", help="Stop position: end, an offset or an ISO 8601 timestamp."),
]


class TableKind(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class ValuesChoice(StrEnum):
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    REGISTRY = "registry"


class NewFieldsChoice(StrEnum):
    ADD = "add"
    IGNORE = "ignore"
    REFUSE = "refuse"


@app.command()
def ingest(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", show_default=False, help="Directory of the table.")],
    as_: Annotated[TableKind, typer.Option("--as", help="Table format.")] = TableKind.DELTA,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="CATALOG",
            help="With --as iceberg, for a new table: sqlite:///FILE, the https:// URL of a REST catalog, or a catalog "
            "name from the PyIceberg configuration. Default: a file in the table's directory.",
        ),
    ] = None,
    catalog_table: Annotated[
        str | None,
        typer.Option(
            "--catalog-table", metavar="NAMESPACE.NAME", help="With --as iceberg: name of the table in the catalog."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Job name. Default: the topic name. Required if several jobs write to one table."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS",
            help="Columns of the table, such as 'id bigint, name string'. Default: inferred from the records.",
        ),
    ] = None,
    values: Annotated[
        ValuesChoice,
        typer.Option(
            "--values",
            help="Format of the record values: json; avro or protobuf with one --schema-file; registry if each value "
            "starts with a schema ID.",
        ),
    ] = ValuesChoice.JSON,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            envvar="ODRADEK_SCHEMA_REGISTRY",
            show_envvar=True,
            metavar="URL",
            help="With --values registry: URL of the schema registry. Set a URL with credentials "
            "(http://USER:PASSWORD@HOST) in the environment variable.",
        ),
    ] = None,
    schema_file: Annotated[
        list[str] | None,
        typer.Option(
            "--schema-file",
            metavar="[ID=]FILE",
            help="Avro schema (JSON), or a descriptor set from `protoc --include_imports --descriptor_set_out`. With "
            "--values registry, prefix it with the schema ID. Repeatable.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", metavar="NAME", help="With --values protobuf: message type in the schema file."),
    ] = None,
    new_fields: Annotated[
        NewFieldsChoice,
        typer.Option(
            "--new-fields", help="Fields without a column: add a column, ignore the field, or refuse the record."
        ),
    ] = NewFieldsChoice.ADD,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="Dead letter topic for records that cannot be decoded. Without it, such a record stops the job.",
        ),
    ] = None,
    start: From = None,
    end: To = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new records. Without it, the job stops at the end of the topic.")
    ] = False,
    interval: Interval = 1.0,
    batch_records: BatchRecords = 500_000,
    skip_lost: SkipLost = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Consumer group in which the job commits its progress for monitoring.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Write the records of a topic to a table, exactly once. Run the same command again to resume."""
    if follow and end is not None:
        raise UserError("--follow and --to are mutually exclusive. Use one of them.")
    if as_ is not TableKind.ICEBERG and (catalog or catalog_table) is not None:
        raise UserError("--catalog and --catalog-table require --as iceberg.")
    spark = spark_settings(master, conf, remote)
    ingest_module, tables = jobs_module("ingest"), jobs_module("tables.table")
    settings = ingest_module.IngestSettings(
        bootstrap=bootstrap,
        topic=topic,
        table=table,
        format=tables.TableFormat(as_),
        place=jobs_module("tables.catalogs").CatalogPlace(catalog, catalog_table),
        name=name or topic,
        schema=schema,
        values=jobs_module("values").ValueKind(values),
        registry=schema_registry,
        schema_files=tuple(schema_file or ()),
        message=message,
        new_fields=jobs_module("rows").NewFields(new_fields),
        dead_letters=dead_letters,
        start=start,
        end=end,
        follow=follow,
        interval_s=interval,
        batch_records=batch_records,
        skip_lost=skip_lost,
        group=group,
    )
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        raise typer.Exit(jobs_module("commands").run_ingest(cluster, settings, spark, format))


@app.command()
def audit(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    table: Annotated[
        Path | None,
        typer.Argument(metavar="[TABLE]", show_default=False, help="Directory of a table that `ingest` has written."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TOPIC", help="Compare with a topic instead of a table."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the job that wrote the table. Default: the topic name.")
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option("--dead-letters", metavar="TOPIC", help="Dead letter topic of the job.")
    ] = None,
    rewritten: Annotated[
        bool,
        typer.Option("--rewritten", help="With --against: check records and order against the rules of a `rewrite`."),
    ] = False,
    state: Annotated[
        Path, typer.Option("--state", metavar="DIRECTORY", help="With --rewritten: state directory of the rewrite.")
    ] = Path("."),
    without_keys: Annotated[
        Path | None, typer.Option("--without-keys", metavar="FILE", help="With --rewritten: key file of the rewrite.")
    ] = None,
    keys_as: Annotated[
        KeysAs, typer.Option("--keys-as", help="Encoding of the keys in the --without-keys file.")
    ] = KeysAs.TEXT,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-f",
            metavar="POSITION",
            help="With --against: start position (beginning, an offset, -N or a timestamp).",
        ),
    ] = "beginning",
    end: Annotated[
        str | None,
        typer.Option(
            "--to", "-t", metavar="POSITION", help="With --against: stop position (end, an offset or a timestamp)."
        ),
    ] = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Compare a topic with its table or with another topic. Exit code 1 if records are missing, duplicated or wrong."""
    if (table is None) == (against is None):
        raise UserError("Specify either a table or --against TOPIC.")
    if rewritten and against is None:
        raise UserError("--rewritten compares two topics. Specify the other topic with --against.")
    spark = spark_settings(master, conf, remote)
    commands = jobs_module("commands")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        if rewritten and against is not None:
            job = name or rewrite_name(topic, against)
            erased = erased_keys(without_keys, keys_as)
            kept = jobs_module("state").JobState(state, job)
            audit_rewritten = jobs_module("rewrite.commands").audit_rewritten
            code = audit_rewritten(cluster, bootstrap, topic, against, kept, job, erased, spark, format)
            raise typer.Exit(code)
        if against is not None:
            comparison = jobs_module("audit_topics").TopicAudit(cluster, bootstrap, topic, against, start, end)
            raise typer.Exit(commands.audit_topics(comparison, spark, format))
        settings = jobs_module("audit").TableAuditSettings(
            bootstrap=bootstrap, topic=topic, table=table, name=name or topic, dead_letters=dead_letters
        )
        raise typer.Exit(commands.audit_table(cluster, settings, spark, format))


@app.command()
def load(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", show_default=False, help="Delta table, or Parquet or JSON files.")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="COLUMN", help="Column with the record keys.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="COLUMN", help="Column with the record values. Default: the row as JSON."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Job name. Default: load-TOPIC.")] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="DIRECTORY", help="Directory for the job's state. Default: the source's directory."
        ),
    ] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Compression codec.")] = Codec.NONE,
    batch_megabytes: Annotated[
        int, typer.Option("--batch-megabytes", min=1, help="Maximum size of the files in one batch, in MB.")
    ] = 256,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Write the rows of a table or of files to a topic, exactly once. Run the same command again to resume."""
    spark = spark_settings(master, conf, remote)
    settings = jobs_module("load").LoadSettings(
        bootstrap=bootstrap,
        source=source,
        topic=topic,
        state=state or default_state_dir(source),
        name=name or load_name(topic),
        key=key,
        value=value,
        compression=str(compression),
        batch_bytes=batch_megabytes * 1024 * 1024,
    )
    if state is None and not source.exists():
        raise UserError(
            f"Source not found: {str(source)!r}. Specify the directory of a table, or Parquet or JSON files."
        )
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        raise typer.Exit(jobs_module("commands").run_load(cluster, settings, spark, format))


@app.command()
def skew(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML report with charts to this file.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-f",
            metavar="POSITION",
            help="Start position: beginning, an offset, -N or an ISO 8601 timestamp.",
        ),
    ] = None,
    end: To = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Find hot partitions and hot keys of a topic over time, and suggest how to fix them."""
    if report is not None and not report.absolute().parent.is_dir():
        raise UserError(f"--report: directory not found: {str(report.absolute().parent)!r}. Create it first.")
    settings = jobs_module("skew.job").SkewSettings(bootstrap=bootstrap, topic=topic, start=start, end=end)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        jobs_module("commands").skew(cluster, settings, spark_settings(master, conf, remote), format, report)


@app.command()
def stop(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            show_default=False,
            help="Table of the job; for a load, its source or --state; for a rewrite, its --state.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Job name. Required if the directory has several jobs.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Stop the job's audit instead of the job.")] = False,
    timeout: Timeout = 120.0,
) -> None:
    """Stop a job on this machine after its current batch. Run the same job again to resume."""
    jobs_module("commands").stop(default_state_dir(table), name, timeout, is_audit=audit)


def default_state_dir(source: Path) -> Path:
    """Return the state directory of a load without --state: the source's directory."""
    return source.absolute().parent if source.is_file() else source


def load_name(topic: str) -> str:
    return f"load-{topic}"


app.command()(rewrite)
app.command()(switch)
