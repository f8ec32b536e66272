"""Runs the console's web server: port, pages and access control."""

import logging
import socket
import sys
import threading
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui

from odradek.client.address import Address
from odradek.console.access import Access
from odradek.console.console import Console
from odradek.console.screens.all_screens import add_screens
from odradek.console.settings import Settings, check_exposure
from odradek.pipelines.schemas.registry import InvalidRegistryUrl
from odradek.text.errors import UserError
from odradek.text.terminal import say

_FAVICON: Final = "🧵"
# Pages survive a short disconnection, such as a phone in a tunnel.
_AWAY_S: Final = 30.0


def serve(settings: Settings) -> None:
    """Runs until it is stopped. Raises UserError for unsafe settings, OSError if the port is in use."""
    check_exposure(settings)
    console = _console(settings)
    listening = _listen(settings)
    scheme = "https" if settings.is_encrypted else "http"
    address = Address(settings.host, listening.getsockname()[1])
    _quieten()
    add_screens(console)
    web = FastAPI(openapi_url=None)
    ui.run_with(
        web,
        title="Odradek",
        favicon=_FAVICON,
        language="en-US",
        dark=None,
        reconnect_timeout=_AWAY_S,
        show_welcome_message=False,
    )
    # The first page then finds a snapshot.
    pages.on_startup(console.warm_up)
    pages.on_shutdown(console.close)
    say(f"console: {scheme}://{address}/ for the cluster at {', '.join(map(str, settings.bootstrap))}")
    if settings.is_read_only:
        say("read-only: the console makes no changes")
    else:
        say(f"audit log: {settings.audit_log}")
    config = uvicorn.Config(
        Access(web, settings),
        log_level="warning",
        access_log=False,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    if settings.is_attached:
        print(f"ready {scheme}://{address}/", flush=True)
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    server.run(sockets=[listening])


def _end_with_input(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(1024):
        continue
    server.should_exit = True


def _console(settings: Settings) -> Console:
    try:
        return Console(settings)
    except InvalidRegistryUrl as error:
        raise UserError(f"--schema-registry: {error}") from None


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=128)


def _quieten() -> None:
    """Hides browser activity from the console's output."""
    for name in ("nicegui", "uvicorn.error", "engineio.server", "socketio.server"):
        logging.getLogger(name).setLevel(logging.ERROR)


def default_audit_log(environment: dict[str, str], home: Path) -> Path:
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else home / ".local" / "state") / "odradek" / "console-audit.jsonl"
