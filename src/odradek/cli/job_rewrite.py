"""`odradek job rewrite` and `odradek job switch`: copy a topic into another one and migrate its clients."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.cli.produce import Codec
from odradek.pipelines.loading import jobs_module
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat
from odradek.text.times import parse_duration_ms


class KeysAs(StrEnum):
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


class KeylessChoice(StrEnum):
    REFUSE = "refuse"
    KEEP = "keep"
    DROP = "drop"


State = Annotated[Path, typer.Option("--state", metavar="DIRECTORY", help="Directory for the job's state.")]
SourceTopic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Source topic.")]
TargetTopic = Annotated[
    str,
    typer.Argument(metavar="TARGET", show_default=False, help="Target topic; created like TOPIC if it does not exist."),
]


def rewrite(
    topic: SourceTopic,
    target: TargetTopic,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="Partitions of the target. Default: as many as TOPIC has."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            metavar="SQL",
            help="SQL expression for the new key, over key and value (as text), headers and timestamp.",
        ),
    ] = None,
    key_field: Annotated[
        str | None, typer.Option("--key-field", metavar="NAME", help="Field of the JSON values to use as the new key.")
    ] = None,
    keyless: Annotated[
        KeylessChoice, typer.Option("--keyless", help="Records whose new key is null: refuse, keep or drop them.")
    ] = KeylessChoice.REFUSE,
    deduplicate: Annotated[
        str | None,
        typer.Option("--deduplicate", metavar="DURATION", help="Drop duplicates within this period, such as PT10M."),
    ] = None,
    same_by: Annotated[
        str | None,
        typer.Option(
            "--same-by",
            metavar="SQL",
            help="With --deduplicate: expression that identifies duplicates. Default: key and value.",
        ),
    ] = None,
    without_keys: Annotated[
        Path | None,
        typer.Option("--without-keys", metavar="FILE", help="File with keys whose records to drop, one per line."),
    ] = None,
    keys_as: Annotated[
        KeysAs, typer.Option("--keys-as", help="Encoding of the keys in the --without-keys file.")
    ] = KeysAs.TEXT,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            "--tables",
            metavar="DIRECTORY",
            help="Also search the tables below this directory for dropped keys. Repeatable.",
        ),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search all topics for the dropped keys.")
    ] = True,
    start: From = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep copying until `odradek job switch`. Without it, stop at the end of the topic."
        ),
    ] = False,
    interval: Interval = 1.0,
    batch_records: BatchRecords = 500_000,
    skip_lost: SkipLost = False,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Compression codec.")] = Codec.NONE,
    name: Annotated[str | None, typer.Option("--name", help="Job name. Default: rewrite-TOPIC-TARGET.")] = None,
    state: State = Path("."),
    master: Master = DEFAULT_MASTER,
    remote: Remote = None,
    conf: Conf = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Copy a topic into another one with more partitions, new keys, no duplicates, or without certain keys.

    Each record is copied exactly once, in order per key. Run the same command again to resume.
    """
    spark = spark_settings(master, conf, remote)
    rules = jobs_module("rewrite.rules")
    settings = jobs_module("rewrite.job").RewriteSettings(
        bootstrap=bootstrap,
        source=topic,
        target=target,
        state=state,
        name=name or rewrite_name(topic, target),
        rules=rules.Rules(
            key=key,
            key_field=key_field,
            keyless=rules.Keyless(keyless),
            window_ms=None if deduplicate is None else parse_duration_ms(deduplicate, "--deduplicate"),
            same_by=same_by,
            erased=erased_keys(without_keys, keys_as),
        ).check(),
        partitions=partitions,
        start=start,
        follow=follow,
        interval_s=interval,
        batch_records=batch_records,
        skip_lost=skip_lost,
        compression=str(compression),
    )
    if without_keys is None and tables:
        raise UserError("--tables requires --without-keys.")
    commands = jobs_module("rewrite.commands")
    search_settings = commands.SearchSettings(tuple(tables or ()), search)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        raise typer.Exit(commands.run_rewrite(cluster, settings, search_settings, spark, format))


def switch(
    topic: SourceTopic,
    target: TargetTopic,
    name: Annotated[str | None, typer.Option("--name", help="Job name. Default: rewrite-TOPIC-TARGET.")] = None,
    state: State = Path("."),
    timeout: Timeout = 120.0,
) -> None:
    """Finish a `rewrite --follow` on this machine.

    First stop the producers of TOPIC. After the switch, start them with TARGET.
    """
    job = name or rewrite_name(topic, target)
    kept = jobs_module("state").JobState(state, job)
    jobs_module("rewrite.commands").switch(kept, job, timeout)


def rewrite_name(topic: str, target: str) -> str:
    return f"rewrite-{topic}-{target}"


def erased_keys(file: Path | None, keys_as: KeysAs) -> Any | None:
    if file is None:
        return None
    found = jobs_module("rewrite.erased_keys")
    return found.read_erased_keys(file, found.KeyText(keys_as))
