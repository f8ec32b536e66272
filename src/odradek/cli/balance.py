"""`odradek cluster balance`: how evenly brokers carry leaders, replicas and bytes, and which partitions weigh most."""

from typing import Annotated, Any

import typer

from odradek.cli.amounts import format_bytes
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Format, Timeout, open_cluster
from odradek.cli.output import OutputFormat, print_json, print_table
from odradek.cli.progress import progress
from odradek.client.placement import loads_of, skew_of, spread
from odradek.client.survey import Survey, survey


def balance(
    largest: Annotated[int, typer.Option("--largest", min=0, metavar="N", help="How many partitions to show.")] = 10,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show what each broker leads, holds and stores, how much they differ, and the largest partitions."""
    with (
        open_cluster(bootstrap, timeout) as cluster,
        progress("asking brokers for sizes", None, unit="brokers") as advance,
    ):
        found = survey(cluster, on_answer=advance)
    described = describe_balance(found, largest)
    if format is OutputFormat.JSON:
        print_json(described)
        return
    skew = described["skew"]
    print_table(
        ("broker", "state", "rack", "leaders", "preferred", "replicas", "bytes"),
        [
            *(
                (
                    broker["broker"],
                    broker["state"],
                    broker["rack"],
                    broker["leaders"],
                    broker["preferred_leaders"],
                    broker["replicas"],
                    None if broker["bytes"] is None else format_bytes(broker["bytes"]),
                )
                for broker in described["brokers"]
            ),
            (
                "skew",
                None,
                None,
                skew["leaders"],
                skew["preferred_leaders"],
                skew["replicas"],
                format_bytes(skew["bytes"]),
            ),
        ],
    )
    if described["largest"]:
        print_table(
            ("partition", "leader", "replicas", "bytes"),
            [
                (
                    f"{one['topic']}-{one['partition']}",
                    "none" if one["leader"] is None else one["leader"],
                    one["replicas"],
                    format_bytes(one["bytes"]),
                )
                for one in described["largest"]
            ],
        )


def describe_balance(found: Survey, largest: int) -> dict[str, Any]:
    """Bytes are what a broker has on its disks, which may be more or less than its replicas' leaders have."""
    placed = found.placed()
    loads = loads_of(placed, found.members)
    leaders = dict.fromkeys(found.members, 0)
    for layout in found.partitions.values():
        if layout.leader in leaders:
            leaders[layout.leader] += 1
    stored = {broker: sum(sizes.values()) for broker, sizes in found.sizes.items()}
    skew = skew_of([load for broker, load in loads.items() if broker in found.online])
    partitions = found.partitions
    return {
        "brokers": [
            {
                "broker": broker,
                "state": "online" if broker in found.online else "fenced",
                "rack": found.members[broker].rack,
                "leaders": leaders[broker],
                "preferred_leaders": load.leaders,
                "replicas": load.replicas,
                "bytes": stored.get(broker),
            }
            for broker, load in loads.items()
        ],
        "skew": {
            "leaders": spread([leaders[broker] for broker in found.online]),
            "preferred_leaders": skew.leaders,
            "replicas": skew.replicas,
            "bytes": spread(list(stored.values())),
        },
        "largest": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "leader": partitions[one.partition].leader if partitions[one.partition].leader >= 0 else None,
                "replicas": list(one.replicas),
                "bytes": one.size_bytes,
            }
            for one in sorted(placed, key=lambda one: (-one.size_bytes, one.partition))[:largest]
        ],
    }
