from odradek.console.history import GROUPS_MAX, Lags
from odradek.console.readings.charts import Sample, lag_chart, throughput_chart


def test_lines_are_drawn_and_told() -> None:
    assert throughput_chart([Sample(0, (1.0, 2.0))]) is None
    chart = throughput_chart([Sample(0, (0.0, 500.0)), Sample(5000, (2000.0, 500.0)), Sample(10_000, (1000.0, 0.0))])
    assert chart is not None
    assert chart.label == (
        "Throughput of the last 10.0 s: Written now 1.0 kB/s, max 2.0 kB/s; Read now 0 B/s, max 500 B/s"
    )
    assert chart.most == "2.0 kB/s"
    assert [line.path for line in chart.lines] == ["M0 98.0 L500 2.0 L1000 50.0", "M0 74.0 L500 74.0 L1000 98.0"]


def test_no_line_goes_where_nobody_looked_and_none_is_divided_by_nothing() -> None:
    chart = lag_chart([Sample(at, (0.0,)) for at in (0, 2000, 4000, 90_000, 92_000)])
    assert chart is not None
    assert [part[0] for part in chart.lines[0].path.split(" ")[::2]] == ["M", "L", "L", "M", "L"]


def test_many_looks_are_thinned_and_no_peak_is_lost() -> None:
    samples = [Sample(at * 1000, (1.0,)) for at in range(900)]
    samples[451] = Sample(451_000, (50.0,))
    chart = lag_chart(samples)
    assert chart is not None
    assert chart.most == "50"
    assert len(chart.lines[0].path.split(" ")) // 2 <= 240


def test_lags_are_kept_of_the_groups_that_were_looked_at_last() -> None:
    lags = Lags()
    lags.add("first", 0, 5)
    assert len(lags.add("first", 400, 6)) == 1
    assert len(lags.add("first", 1400, 7)) == 2
    for number in range(GROUPS_MAX):
        lags.add(f"g{number}", 0, 1)
    assert len(lags.add("first", 9000, 5)) == 1
