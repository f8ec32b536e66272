"""A browser that records errors in its console and checks pages for accessibility."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from tests import components

AXE_VERSION: Final = "4.11.0"
DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
_PATIENCE_MS: Final = 45_000
_RUN_AXE: Final = """() => axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(
    one => ({id: one.id, impact: one.impact, nodes: one.nodes.map(node => node.html.slice(0, 300))})))"""


def axe_source() -> str:
    """Return axe-core's script, and install it on first use."""
    components.find_program("node")
    directory = components.cache_directory() / f"axe-core-{AXE_VERSION}"
    script = directory / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        directory.mkdir(parents=True, exist_ok=True)
        npm = [components.find_program("npm"), "install", "--no-save", "--no-audit", "--no-fund"]
        command = [*npm, "--prefix", str(directory), f"axe-core@{AXE_VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise components.ComponentMissing(f"npm could not install axe-core: {result.stderr[-500:]}")
    return script.read_text()


class Visitor:
    """A browser window of a given size, and the console's pages in it."""

    def __init__(self, browser: Any, address: str, axe: str, size: dict[str, int]) -> None:
        self.address = address
        self._axe = axe
        self._context = browser.new_context(viewport=size, ignore_https_errors=True)
        self._context.set_default_timeout(_PATIENCE_MS)
        self.page = self._context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def close(self) -> None:
        self._context.close()

    def open(self, path: str) -> Any:
        """Open a page and wait until its websocket is connected."""
        self.page.goto(self.address + path)
        self.page.wait_for_function("() => window.did_handshake")
        return self.page

    def row(self, key: str) -> Any:
        return self.page.locator(f"tr[data-key={json.dumps(key)}]")

    def cell(self, key: str, column: str) -> Any:
        return self.row(key).locator(f"td[data-column={column}]")

    def press(self, name: str) -> None:
        """Click the button with this name on the page."""
        self.page.locator("main").get_by_role("button", name=name, exact=True).click()

    def press_in_dialog(self, name: str) -> None:
        """Click the button with this name in the open dialog."""
        self.page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        """Fill the text field whose label starts with this text."""
        self.page.get_by_role("textbox", name=re.compile(f"^{re.escape(label)}")).fill(text)

    def choose(self, label: str, value: str) -> None:
        self.page.get_by_role("combobox", name=re.compile(f"^{re.escape(label)}")).select_option(value)

    def outcome(self) -> str:
        """Return the message about the last change."""
        box = self.page.locator(".o-message")
        box.wait_for()
        return str(box.inner_text())

    def expect(self, locator: Any, text: str) -> None:
        locator.filter(has_text=re.compile(re.escape(text))).first.wait_for()

    def picture(self, name: str) -> None:
        """Save a screenshot for the documentation, if ODRADEK_PICTURES names a directory."""
        if directory := os.environ.get("ODRADEK_PICTURES"):
            self.page.evaluate("() => window.scrollTo(0, 0)")
            self.page.screenshot(path=f"{directory}/console-{name}-{self.page.viewport_size['width']}.png")

    def check_accessible(self) -> None:
        """Assert that axe-core has no serious finding and that the page is not wider than the window."""
        if not self.page.evaluate("() => Boolean(window.axe)"):
            self.page.evaluate(self._axe)
        found = [one for one in self.page.evaluate(_RUN_AXE) if one["impact"] in ("serious", "critical")]
        assert not found, json.dumps(found, indent=1)
        overhang = self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        assert overhang <= 0, f"the page is {overhang} pixels wider than the window"


@contextmanager
def chromium() -> Iterator[Any]:
    playwright = components.require("playwright", _playwright)
    program = components.require("chromium", lambda: components.find_program("chromium"))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def _playwright() -> Any:
    try:
        return import_module("playwright.sync_api")
    except ModuleNotFoundError:
        raise components.ComponentMissing("pip install playwright") from None


def installed_axe() -> str:
    return components.require("axe-core", axe_source)
