from odradek.base.ids import TopicPartition
from odradek.client.config_description import DescribedConfig
from odradek.console.queries.topics import PartitionOffsets, Readers, ReadingGroup, TopicLags
from odradek.console.readings.topics import (
    DELETE,
    Order,
    config_rows,
    lags_sentence,
    partition_page,
    reader_rows,
    topic_page,
)
from tests.unit.console.snapshots import log_dir, partition, snapshot, topic

SEEN = snapshot(
    topic("orders", partition(0, (1, 2)), partition(1, (2, 1), isr=(2,))),
    topic("payments", partition(0, (1, 3))),
    topic("__consumer_offsets", partition(0, (1,)), is_internal=True),
    disks={1: (log_dir(orders_0=100, payments_0=9000),), 2: (log_dir(orders_0=80, orders_1=50),)},
    min_isr={"orders": 2},
)
LAGS = TopicLags(of_topics={"orders": 1234}, queried=2000, of=2001)


def names(**more: object) -> list[str]:
    given: dict[str, object] = {"search": "", "with_internal": False, "order": Order.NAME, "page": 1}
    return [row.key for row in topic_page(SEEN, None, **(given | more)).items]  # type: ignore[arg-type]


def test_topics_are_searched_and_sorted() -> None:
    assert names() == ["orders", "payments"]
    assert names(order=Order.SIZE) == ["payments", "orders"]
    assert names(order=Order.PARTITIONS) == ["orders", "payments"]
    assert names(search="PAY") == ["payments"]
    assert names(with_internal=True) == ["__consumer_offsets", "orders", "payments"]


def test_topic_row_shows_sizes_state_and_lag() -> None:
    orders, payments = topic_page(SEEN, LAGS, search="", with_internal=False, order=Order.NAME, page=1).items
    assert [orders.text(name) for name in ("state", "partitions", "replicas", "size", "stored")] == [
        "1 below min ISR",
        "2",
        "2",
        "150 B",
        "230 B",
    ]
    assert payments.text("state") == "in sync"
    assert (orders.text("lag"), payments.text("lag")) == ("1,234", "no consumer groups")
    assert lags_sentence(LAGS) == "Lag includes the first 2,000 of 2,001 groups."
    assert payments.actions == (DELETE,)


def test_internal_topics_cannot_be_deleted_from_the_list() -> None:
    internal, *_ = topic_page(SEEN, LAGS, search="", with_internal=True, order=Order.NAME, page=1).items
    assert internal.actions == ()


def test_partition_rows_show_offsets_once_known() -> None:
    first = TopicPartition("orders", 0)
    unknown, _ = partition_page(SEEN, SEEN.topics["orders"], None, 1).items
    assert unknown.text("latest") == "…"
    offsets = PartitionOffsets(earliest={first: 10}, latest={first: 1234})
    known, below = partition_page(SEEN, SEEN.topics["orders"], offsets, 1).items
    assert [known.text(name) for name in ("earliest", "latest", "records", "size")] == ["10", "1,234", "1,224", "100 B"]
    assert below.text("state") == "1 of min 2 in sync"


def test_ten_thousand_topics_are_paged() -> None:
    seen = snapshot(*(topic(f"t-{number:05}", partition(0, (1,))) for number in range(10_000)))
    page = topic_page(seen, None, search="t-", with_internal=False, order=Order.SIZE, page=400)
    assert (len(page.items), page.count, page.items[-1].key) == (25, 400, "t-09999")


def test_groups_of_a_topic_are_sorted_by_lag() -> None:
    first = TopicPartition("orders", 0)
    groups = tuple(
        ReadingGroup(id=name, state="Empty", members=0, committed={first: offset})
        for name, offset in (("near", 99), ("far", 5), ("ahead", 200))
    )
    rows = reader_rows(Readers(groups=groups, ends={first: 100}, queried=3, of=3))
    assert [(row.key, row.text("lag")) for row in rows] == [("far", "95"), ("near", "1"), ("ahead", "0")]


def test_only_configs_set_for_the_topic_are_shown() -> None:
    def config(name: str, is_own: bool) -> DescribedConfig:
        return DescribedConfig(
            name=name,
            value="<b>\x00",
            source="",
            default=None,
            documentation="",
            is_sensitive=False,
            is_read_only=False,
            is_own=is_own,
        )

    (row,) = config_rows([config("a", False), config("b", True)])
    assert (row.key, row.text("value"), row.text("default")) == ("b", "<b>\\x00", "unknown")
