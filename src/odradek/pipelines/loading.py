"""Imports job modules on first use, because they need an extra that the base install does not include."""

from importlib import import_module
from typing import Any

from odradek.text.errors import UserError


def jobs_module(name: str) -> Any:
    """Import a module of `odradek.pipelines.jobs`. Raises UserError if a dependency is not installed."""
    try:
        return import_module(f"odradek.pipelines.jobs.{name}")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("odradek"):
            raise
        raise UserError(f"{error.name} is not installed. Install it with pip install 'odradek[jobs]'.") from None
