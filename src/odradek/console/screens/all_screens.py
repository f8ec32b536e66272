"""Registers every page and its shared browser assets."""

from pathlib import Path

from nicegui import app, ui

from odradek.console.console import Console
from odradek.console.screens.audit_log import add_audit_log
from odradek.console.screens.brokers import add_brokers
from odradek.console.screens.configs import add_configs
from odradek.console.screens.group import add_group
from odradek.console.screens.groups import add_groups
from odradek.console.screens.messages import add_messages
from odradek.console.screens.overview import add_overview
from odradek.console.screens.partitions import add_partitions
from odradek.console.screens.pipelines import add_pipelines
from odradek.console.screens.quorum import add_quorum
from odradek.console.screens.reassignments import add_reassignments
from odradek.console.screens.topic import add_topic
from odradek.console.screens.topics import add_topics

_STYLES = Path(__file__).with_name("console.css")


def add_screens(console: Console) -> None:
    app.add_static_file(local_file=_STYLES, url_path="/console.css", max_cache_age=3600)
    ui.add_head_html('<link rel="stylesheet" href="/console.css">', shared=True)
    add_overview(console)
    add_brokers(console)
    add_quorum(console)
    add_topics(console)
    add_topic(console)
    add_messages(console)
    add_groups(console)
    add_group(console)
    add_configs(console)
    add_partitions(console)
    add_reassignments(console)
    add_pipelines(console)
    add_audit_log(console)
