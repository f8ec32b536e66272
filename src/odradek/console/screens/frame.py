"""The frame of every page: navigation, cluster health and messages."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any, Final, TypeVar

from nicegui import ui
from starlette.requests import Request

from odradek.console.access import USER
from odradek.console.console import EXPECTED, Console
from odradek.console.readings.health import clock_time, health_of
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import Tone, link_to
from odradek.console.screens.search import Search
from odradek.console.screens.widgets import Text, button

T = TypeVar("T")

TICK_S: Final = 0.5
PLACES: Final = (
    ("Overview", "/"),
    ("Brokers", "/brokers"),
    ("Quorum", "/quorum"),
    ("Topics", "/topics"),
    ("Partitions", "/partitions"),
    ("Reassignments", "/reassignments"),
    ("Groups", "/groups"),
    ("Configs", "/configs"),
    ("Pipelines", "/pipelines"),
    ("Audit log", "/audit-log"),
)
_TOGGLE_THEME: Final = """
const dark = !Quasar.Dark.isActive; Quasar.Dark.set(dark);
document.cookie = `odradek-theme=${dark ? 'dark' : 'light'}; Path=/; SameSite=Strict; Max-Age=31536000`;
"""

OnSnapshot = Callable[[ClusterSnapshot], Any]


class Frame:
    """One page in one browser."""

    def __init__(self, console: Console, request: Request, path: str) -> None:
        self.console: Final = console
        self.user: Final = str(request.scope.get(USER, "?"))
        self.query_params: Final = dict(request.query_params)
        self.may_change: Final = not console.settings.is_read_only
        self._path: Final = path
        self._client: Final = ui.context.client
        self._on_snapshot: Final[list[OnSnapshot]] = []
        self._seen: ClusterSnapshot | None = None
        self._reason: str | None = None
        self._health: Text | None = None
        self._message = ui.element("div")

    @property
    def is_open(self) -> bool:
        """NiceGUI keeps a closed page for a while; it must not cause expensive queries."""
        return self._client.has_socket_connection

    def on_snapshot(self, draw: OnSnapshot) -> None:
        """Calls `draw` with every new snapshot, and now if there is one."""
        self._on_snapshot.append(draw)
        if self.console.watch.snapshot is not None:
            draw(self.console.watch.snapshot)

    def show_message(self, sentence: str, tone: Tone) -> None:
        self._message.clear()
        with self._message, ui.element("div").classes(f"o-message o-{tone}") as box:
            box.props["role"] = "alert"
            Text(sentence, "div")
            button("Dismiss", self._message.clear, kind="o-small o-plain")

    async def query(self, awaitable: Awaitable[T], *, is_repeated: bool = False) -> T | None:
        """Returns None and shows the reason if the query fails. A repeated query shows the same reason only once, so
        that it does not hide other messages.
        """
        try:
            result = await awaitable
        except EXPECTED as error:
            reason = self.console.explain(error)
            if not (is_repeated and reason == self._reason):
                self.show_message(reason, Tone.BAD)
            self._reason = reason
            return None
        if is_repeated:
            self._reason = None
        return result

    def remember(self, **query: object) -> None:
        """Stores the view in the URL, so that users can share the link."""
        ui.navigate.history.replace(link_to(*self._path.strip("/").split("/"), **query))

    def number(self, name: str, default: int) -> int:
        text = self.query_params.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else default

    async def tick(self) -> None:
        snapshot = self.console.watch.touch()
        self._show_health(snapshot)
        if snapshot is None or snapshot is self._seen:
            return
        self._seen = snapshot
        for draw in self._on_snapshot:
            drawn = draw(snapshot)
            if isawaitable(drawn):
                await drawn

    async def wait_for_snapshot(self) -> None:
        """Draws the first snapshot at once instead of at the next tick."""
        await self.console.watch.wait_for_first_snapshot()
        await self.tick()

    def put_health(self) -> None:
        with ui.element("div").classes("o-health") as line:
            line.props["role"] = "status"
            self._health = Text("Connecting to the cluster…", "span", "o-tone")
        self._show_health(self.console.watch.touch())

    def _show_health(self, snapshot: ClusterSnapshot | None) -> None:
        failure = self.console.watch.failure
        if failure is not None:
            since = f" The data shown is from {clock_time(snapshot.at_ms)}." if snapshot else ""
            self._say(f"The cluster is not responding. {failure}{since}", Tone.BAD)
        elif snapshot is not None and snapshot is not self._seen:
            health = health_of(snapshot)
            self._say(health.sentence, health.tone)

    def _say(self, sentence: str, tone: Tone) -> None:
        assert self._health is not None
        self._health.say(sentence)
        self._health.element.classes(replace=f"o-tone o-{tone}")


@contextmanager
def page_frame(console: Console, request: Request, title: str) -> Iterator[Frame]:
    """`title` also names the browser's tab."""
    path = request.url.path
    ui.page_title(f"{title} · Odradek")
    theme = request.cookies.get("odradek-theme")
    ui.dark_mode({"dark": True, "light": False}.get(theme or ""))
    with ui.element("header").classes("o-header"):
        ui.link("Odradek", "/").classes("o-brand")
        with ui.element("nav") as places:
            places.props["aria-label"] = "Main"
            for name, address in PLACES:
                link = ui.link(name, address)
                if path == address or (address != "/" and path.startswith(f"{address}/")):
                    link.props["aria-current"] = "page"
        if console.settings.is_read_only:
            ui.label("Read-only")
        search = Search(console, PLACES)
        toggle = Text("Toggle theme", "button").element
        toggle.props["type"] = "button"
        toggle.on("click", js_handler=f"() => {{ {_TOGGLE_THEME} }}")
    top = ui.element("div")
    with ui.element("main").classes("o-main"):
        Text(title, "h1")
        frame = Frame(console, request, path)
        with top:
            frame.put_health()
        frame.on_snapshot(lambda _: search.renew())
        yield frame
    if console.watch.snapshot is None:
        ui.timer(0, frame.wait_for_snapshot, once=True)
    ui.timer(TICK_S, frame.tick)
