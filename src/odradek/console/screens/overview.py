"""The overview page: figures of the cluster."""

from nicegui import ui
from starlette.requests import Request

from odradek.console.console import Console
from odradek.console.readings.charts import throughput_chart
from odradek.console.readings.overview import COLUMNS, overview_rows
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.screens.frame import page_frame
from odradek.console.screens.widgets import ChartView, RowsTable, Text


def add_overview(console: Console) -> None:
    @ui.page("/")
    def overview(request: Request) -> None:
        with page_frame(console, request, "Overview") as frame:
            table = RowsTable("Cluster metrics", COLUMNS, empty="Connecting to the cluster…")
            Text("Throughput", "h2")
            chart = ChartView("Throughput over time")

            def draw(snapshot: ClusterSnapshot) -> None:
                table.show(overview_rows(snapshot))
                chart.show(throughput_chart(console.watch.throughput))

            frame.on_snapshot(draw)
