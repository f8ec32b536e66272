from odradek.console.history import GROUPS_MAX, Lags
from odradek.console.readings.charts import Sample, lag_chart, throughput_chart


def test_chart_draws_lines_and_describes_them_in_its_label() -> None:
    assert throughput_chart([Sample(0, (1.0, 2.0))]) is None
    chart = throughput_chart([Sample(0, (0.0, 500.0)), Sample(5000, (2000.0, 500.0)), Sample(10_000, (1000.0, 0.0))])
    assert chart is not None
    assert chart.label == (
        "Throughput of the last 10.0 s: Written now 1.0 kB/s, max 2.0 kB/s; Read now 0 B/s, max 500 B/s"
    )
    assert chart.most == "2.0 kB/s"
    assert [line.path for line in chart.lines] == ["M0 98.0 L500 2.0 L1000 50.0", "M0 74.0 L500 74.0 L1000 98.0"]


def test_chart_breaks_lines_at_sampling_gaps_and_accepts_all_zero_values() -> None:
    chart = lag_chart([Sample(at, (0.0,)) for at in (0, 2000, 4000, 90_000, 92_000)])
    assert chart is not None
    assert [part[0] for part in chart.lines[0].path.split(" ")[::2]] == ["M", "L", "L", "M", "L"]


def test_chart_downsampling_keeps_peaks() -> None:
    samples = [Sample(at * 1000, (1.0,)) for at in range(900)]
    samples[451] = Sample(451_000, (50.0,))
    chart = lag_chart(samples)
    assert chart is not None
    assert chart.most == "50"
    assert len(chart.lines[0].path.split(" ")) // 2 <= 240


def test_lag_history_keeps_the_most_recently_viewed_groups() -> None:
    lags = Lags()
    lags.add("first", 0, 5)
    assert len(lags.add("first", 400, 6)) == 1
    assert len(lags.add("first", 1400, 7)) == 2
    for number in range(GROUPS_MAX):
        lags.add(f"g{number}", 0, 1)
    assert len(lags.add("first", 9000, 5)) == 1
