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

app = typer.Typer(no_args_is_help=True, help="Topics into tables and back, on Spark: each record once.")

To = Annotated[str | None, typer.Option("--to", "-t", metavar="WHERE", help="end, an offset, or a time in ISO 8601.")]


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
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    table: Annotated[Path, typer.Argument(metavar="TABLE", show_default=False, help="Its directory.")],
    as_: Annotated[TableKind, typer.Option("--as", help="What kind of table.")] = TableKind.DELTA,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            metavar="WHERE",
            help="With --as iceberg, for a new table: sqlite:///FILE, the https://… of a REST catalog, or what "
            "PyIceberg's settings call it; else a file in the table's directory.",
        ),
    ] = None,
    catalog_table: Annotated[
        str | None,
        typer.Option("--catalog-table", metavar="NAMESPACE.NAME", help="With --as iceberg: its name in the catalog."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the job; the topic's, unless several jobs fill the table.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="COLUMNS", help="As in 'id bigint, name string'; else found from the records."
        ),
    ] = None,
    values: Annotated[
        ValuesChoice,
        typer.Option(
            "--values",
            help="What the records' values are: json; avro or protobuf by one --schema-file; or registry: each begins "
            "with the id of its schema.",
        ),
    ] = ValuesChoice.JSON,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            envvar="ODRADEK_SCHEMA_REGISTRY",
            show_envvar=True,
            metavar="URL",
            help="With --values registry; http://USER:PASSWORD@… where it wants them, better by the variable.",
        ),
    ] = None,
    schema_file: Annotated[
        list[str] | None,
        typer.Option(
            "--schema-file",
            metavar="[ID=]FILE",
            help="Avro's JSON, or what protoc --include_imports --descriptor_set_out makes; with an ID for --values "
            "registry, repeatable.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", metavar="NAME", help="With --values protobuf: which of the file's messages."),
    ] = None,
    new_fields: Annotated[
        NewFieldsChoice,
        typer.Option("--new-fields", help="Fields without a column: add one, ignore them, or refuse the record."),
    ] = NewFieldsChoice.ADD,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters", metavar="TOPIC", help="Where records go that are no rows; else they stop the job."
        ),
    ] = None,
    start: From = None,
    end: To = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for records to come; else stop at the end.")] = False,
    interval: Interval = 1.0,
    batch_records: BatchRecords = 500_000,
    skip_lost: SkipLost = False,
    group: Annotated[
        str | None, typer.Option("--group", help="A consumer group that shows the job's progress to other tools.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Put the records of a topic into a table, each once. The same command again goes on where it stopped."""
    if follow and end is not None:
        raise UserError("--follow and --to exclude each other: choose one")
    if as_ is not TableKind.ICEBERG and (catalog or catalog_table) is not None:
        raise UserError("--catalog and --catalog-table are of use with --as iceberg only")
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
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    table: Annotated[
        Path | None, typer.Argument(metavar="[TABLE]", show_default=False, help="One that `ingest` has filled.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TOPIC", help="Instead of a table: a topic with the same records."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the job that filled the table; the topic's.")] = None,
    dead_letters: Annotated[
        str | None, typer.Option("--dead-letters", metavar="TOPIC", help="Where records lie that are no rows.")
    ] = None,
    rewritten: Annotated[
        bool, typer.Option("--rewritten", help="With --against: what `rewrite` should have made, in its order.")
    ] = False,
    state: Annotated[
        Path, typer.Option("--state", metavar="DIRECTORY", help="With --rewritten: that of the job.")
    ] = Path("."),
    without_keys: Annotated[
        Path | None, typer.Option("--without-keys", metavar="FILE", help="With --rewritten: that of the job.")
    ] = None,
    keys_as: Annotated[KeysAs, typer.Option("--keys-as", help="How that file writes keys.")] = KeysAs.TEXT,
    start: Annotated[
        str, typer.Option("--from", "-f", metavar="WHERE", help="With --against: beginning, an offset, -N, or a time.")
    ] = "beginning",
    end: Annotated[
        str | None, typer.Option("--to", "-t", metavar="WHERE", help="With --against: end, an offset, or a time.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Compare a topic with its table or with another topic. Exit code 1: records are missing, double or different."""
    if (table is None) == (against is None):
        raise UserError("name either a table, or a topic with --against")
    if rewritten and against is None:
        raise UserError("--rewritten compares two topics: name the other one with --against")
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
        Path, typer.Argument(metavar="SOURCE", show_default=False, help="A Delta table, or Parquet or JSON files.")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="COLUMN", help="The records' keys.")] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="The records' values; else whole rows, as JSON.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the job; the topic's.")] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIRECTORY", help="What is kept between runs; the source's directory."),
    ] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Of the batches.")] = Codec.NONE,
    batch_megabytes: Annotated[
        int, typer.Option("--batch-megabytes", min=1, help="The files of one batch together.")
    ] = 256,
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Put the rows of a table or of files into a topic, each once. The same command again goes on where it stopped."""
    spark = spark_settings(master, conf, remote)
    settings = jobs_module("load").LoadSettings(
        bootstrap=bootstrap,
        source=source,
        topic=topic,
        state=state or state_beside(source),
        name=name or load_name(topic),
        key=key,
        value=value,
        compression=str(compression),
        batch_bytes=batch_megabytes * 1024 * 1024,
    )
    if state is None and not source.exists():
        raise UserError(f"there is no {str(source)!r}: name a table's directory, or files of Parquet or JSON")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        raise typer.Exit(jobs_module("commands").run_load(cluster, settings, spark, format))


@app.command()
def skew(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="A page with plots, for a browser.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", "-f", metavar="WHERE", help="beginning, an offset, -N, or a time in ISO 8601."),
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
    """Find the hot partitions and keys of a topic, and when they were; suggest what to do about it."""
    if report is not None and not report.absolute().parent.is_dir():
        raise UserError(f"--report: there is no directory {str(report.absolute().parent)!r}")
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
            help="Of the job; of a load, its source or --state; of a rewrite, --state.",
        ),
    ],
    name: Annotated[str | None, typer.Option("--name", help="Of the job, unless there is only one.")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Not the job: its audit.")] = False,
    timeout: Timeout = 120.0,
) -> None:
    """Let a run on this machine end after its batch. The same job again goes on where it stopped."""
    jobs_module("commands").stop(state_beside(table), name, timeout, is_audit=audit)


def state_beside(source: Path) -> Path:
    """Where a load keeps its state if nothing else is said."""
    return source.absolute().parent if source.is_file() else source


def load_name(topic: str) -> str:
    return f"load-{topic}"


app.command()(rewrite)
app.command()(switch)
