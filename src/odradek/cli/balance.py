"""`odradek cluster balance`: how evenly leaders, replicas, bytes and traffic are spread over the brokers, and which
partitions are the largest and the busiest.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from odradek.base.ids import TopicPartition
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.layout import PartitionLayout
from odradek.client.placement import loads_of, skew_of, spread
from odradek.client.survey import Survey, survey
from odradek.client.traffic import Rates, Traffic, traffic
from odradek.text.amounts import format_bytes
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import say

_HOT_KEY_SHARE_MIN: Final = 0.1
_HOT_KEYS_MAX: Final = 3


def balance(
    largest: Annotated[
        int,
        typer.Option("--largest", min=0, metavar="N", help="Number of partitions to list by size and by traffic."),
    ] = 10,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show leaders, replicas, disk usage and traffic per broker, the skew between brokers, and the largest and
    busiest partitions.

    Traffic is the client bytes produced and consumed per second over about the last minute. Brokers report it at
    their http.address.
    """
    with (
        open_cluster(bootstrap, timeout, command_config) as cluster,
        progress("Requesting log dir sizes", None, unit="brokers") as advance,
    ):
        found = survey(cluster, on_response=advance)
        online = {broker: found.members[broker] for broker in sorted(found.online)}
        measured = traffic(cluster, found.cluster_id, online, timeout_s=timeout)
    described = describe_balance(found, measured, largest)
    if format is OutputFormat.JSON:
        print_json(described)
        return
    _print_brokers(described)
    _print_partitions("largest partitions", described["largest"], ("bytes",))
    _print_partitions("busiest partitions", described["hottest"], ("bytes_in_per_second", "bytes_out_per_second"))
    for one in described["without_traffic"]:
        say(f"Broker {one['broker']} reports no traffic: {one['reason']}")


def _print_brokers(described: dict[str, Any]) -> None:
    skew = described["skew"]
    rows = [*described["brokers"], {"broker": "skew", "state": None, "rack": None, **skew}]
    print_table(
        ("broker", "state", "rack", "leaders", "preferred", "replicas", "bytes", "in", "out"),
        [
            (
                row["broker"],
                row["state"],
                row["rack"],
                row["leaders"],
                row["preferred_leaders"],
                row["replicas"],
                None if row["bytes"] is None else format_bytes(row["bytes"]),
                _per_second(row["bytes_in_per_second"]),
                _per_second(row["bytes_out_per_second"]),
            )
            for row in rows
        ],
    )


def _print_partitions(title: str, partitions: list[dict[str, Any]], amounts: tuple[str, ...]) -> None:
    if not partitions:
        return
    headings = {"bytes": "bytes", "bytes_in_per_second": "in", "bytes_out_per_second": "out"}
    with_keys = any(one.get("hot_keys") for one in partitions)
    print_table(
        (title, "leader", "replicas", *(headings[name] for name in amounts), *(("hot keys",) if with_keys else ())),
        [
            (
                f"{one['topic']}-{one['partition']}",
                "none" if one["leader"] is None else one["leader"],
                one["replicas"],
                *(format_bytes(one[name]) if name == "bytes" else _per_second(one[name]) for name in amounts),
                *((_format_hot_keys(one["hot_keys"]),) if with_keys else ()),
            )
            for one in partitions
        ],
    )


def _format_hot_keys(hot_keys: list[dict[str, Any]]) -> str | None:
    """List the keys with a large enough share of the partition's traffic."""
    shown = [one for one in hot_keys if one["share"] >= _HOT_KEY_SHARE_MIN][:_HOT_KEYS_MAX]
    return ", ".join(f"{'no key' if one['key'] is None else one['key']} {one['share']:.0%}" for one in shown) or None


def _per_second(rate: float | None) -> str | None:
    return None if rate is None else f"{format_bytes(rate)}/s"


def describe_balance(found: Survey, measured: Traffic, largest: int) -> dict[str, Any]:
    """Describe the balance as JSON.

    `bytes` is the size on the broker's own disks, which may differ from the sizes of the leaders' logs. Replication
    traffic is separate from client traffic, and the table does not show it.
    """
    placed = found.placed_partitions()
    partitions = found.partitions
    loads = loads_of(placed, found.members)
    leaders = dict.fromkeys(found.members, 0)
    for layout in partitions.values():
        if layout.leader in leaders:
            leaders[layout.leader] += 1
    stored = {broker: sum(sizes.values()) for broker, sizes in found.sizes.items()}
    rates = {broker: sum(of_partitions.values(), Rates()) for broker, of_partitions in measured.rates.items()}
    skew = skew_of([load for broker, load in loads.items() if broker in found.online])
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
                **_rates_as_json(rates.get(broker)),
            }
            for broker, load in loads.items()
        ],
        "skew": {
            "leaders": spread([leaders[broker] for broker in found.online]),
            "preferred_leaders": skew.leaders,
            "replicas": skew.replicas,
            "bytes": spread(list(stored.values())),
            "bytes_in_per_second": _rate_spread([one.bytes_in for one in rates.values()]),
            "bytes_out_per_second": _rate_spread([one.bytes_out for one in rates.values()]),
        },
        "largest": [
            {**_placement_as_json(one.partition, partitions[one.partition]), "bytes": one.size_bytes}
            for one in sorted(placed, key=lambda one: (-one.size_bytes, one.partition))[:largest]
        ],
        "hottest": _busiest_partitions(partitions, measured, largest),
        "without_traffic": [{"broker": broker, "reason": reason} for broker, reason in measured.unavailable.items()],
    }


def _busiest_partitions(
    partitions: Mapping[TopicPartition, PartitionLayout], measured: Traffic, largest: int
) -> list[dict[str, Any]]:
    """Rank partitions by client traffic, summed over all brokers that serve them."""
    sums: dict[TopicPartition, Rates] = {}
    for of_partitions in measured.rates.values():
        for name, rates in of_partitions.items():
            if name in partitions:
                sums[name] = sums.get(name, Rates()) + rates
    hot = [(name, rates) for name, rates in sums.items() if rates.bytes_in + rates.bytes_out > 0]
    hot.sort(key=lambda one: (-one[1].bytes_in - one[1].bytes_out, one[0]))
    return [
        {
            **_placement_as_json(name, partitions[name]),
            "bytes_in_per_second": round(rates.bytes_in, 1),
            "bytes_out_per_second": round(rates.bytes_out, 1),
            "hot_keys": [
                {"key": None if key is None else key.decode(errors="backslashreplace"), "share": share}
                for key, share in measured.hot_keys.get(name, ())
            ],
        }
        for name, rates in hot[:largest]
    ]


def _placement_as_json(name: TopicPartition, layout: PartitionLayout) -> dict[str, Any]:
    return {
        "topic": name.topic,
        "partition": name.partition,
        "leader": layout.leader if layout.leader >= 0 else None,
        "replicas": list(layout.replicas),
    }


def _rates_as_json(rates: Rates | None) -> dict[str, float | None]:
    names = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")
    return {f"{name}_per_second": None if rates is None else round(getattr(rates, name), 1) for name in names}


def _rate_spread(rates: list[float]) -> float | None:
    """Return max minus min, or None if no broker reports traffic."""
    return round(max(rates) - min(rates), 1) if rates else None
