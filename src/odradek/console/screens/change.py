"""The dialogs before every change: they keep the input until it is valid, show the preview, and run the action only
after the user confirms it.
"""

from collections.abc import Callable

from nicegui import ui

from odradek.console.actions.action import Action, Preview
from odradek.console.console import EXPECTED
from odradek.console.readings.table import Tone
from odradek.console.screens.frame import Frame
from odradek.console.screens.widgets import RowsTable, Text, button, enable, text_field

PREVIEW_ROWS = 50

# Draws the fields and returns a function that builds the action, which may raise Refused.
Form = Callable[[], Callable[[], Action]]


async def compose(frame: Frame, title: str, form: Form) -> bool:
    """Returns whether the user confirmed the action and it succeeded."""
    with new_dialog(title) as dialog, ui.element("div").classes("o-card"):
        Text(title, "h2")
        read = form()
        problem = Text(classes="o-bad")
        problem.element.props["role"] = "alert"

        async def proceed() -> None:
            try:
                action = read()
                dialog.submit((action, await frame.console.preview(action)))
            except EXPECTED as error:
                problem.say(frame.console.explain(error))

        with ui.element("div").classes("o-bar"):
            button("Cancel", lambda: dialog.submit(None), kind="o-plain")
            button("Preview", proceed)
    result: tuple[Action, Preview] | None = await dialog
    remove(dialog)
    return result is not None and await _confirm_and_do(frame, *result)


async def propose(frame: Frame, action: Action) -> bool:
    """Returns whether the user confirmed the action and it succeeded. The page shows the outcome."""
    try:
        preview = await frame.console.preview(action)
    except EXPECTED as error:
        frame.show_message(frame.console.explain(error), Tone.BAD)
        return False
    return await _confirm_and_do(frame, action, preview)


async def _confirm_and_do(frame: Frame, action: Action, preview: Preview) -> bool:
    if not await _confirm(action, preview):
        return False
    outcome = await frame.console.carry_out(action, frame.user)
    frame.show_message(outcome.sentence, Tone.GOOD if outcome.has_succeeded else Tone.BAD)
    if outcome.has_succeeded:
        await frame.console.watch.wait_for_next_snapshot()
        await frame.tick()
    return outcome.has_succeeded


async def _confirm(action: Action, preview: Preview) -> bool:
    with new_dialog(action.name) as dialog, ui.element("div").classes("o-card"):
        Text(action.name, "h2")
        Text(preview.sentence)
        for warning in preview.warnings:
            Text(warning, classes="o-tone o-warning").element.style("white-space: normal")
        if preview.columns:
            RowsTable("What would change", preview.columns).show(preview.rows[:PREVIEW_ROWS])
            if len(preview.rows) > PREVIEW_ROWS:
                Text(f"and {len(preview.rows) - PREVIEW_ROWS:,} more", classes="o-faint")
        if preview.typed is not None:
            typed = preview.typed
            text_field(f"Type {typed} to confirm", on_change=lambda value: enable(confirm, value == typed))
        with ui.element("div").classes("o-bar"):
            button("Cancel", lambda: dialog.submit(False), kind="o-plain")
            if not preview.is_empty:
                kind = "o-danger" if preview.typed is not None else ""
                confirm = button(action.name, lambda: dialog.submit(True), kind=kind)
                enable(confirm, preview.typed is None)
    result = await dialog
    remove(dialog)
    return bool(result)


def new_dialog(name: str) -> ui.dialog:
    dialog = ui.dialog()
    dialog.props["aria-label"] = name
    dialog.props["transition-duration"] = 0
    return dialog


def remove(dialog: ui.dialog) -> None:
    """The dialog no longer exists if the user closed the page."""
    if not dialog.is_deleted:
        dialog.delete()
