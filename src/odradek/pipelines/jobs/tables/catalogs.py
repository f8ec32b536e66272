"""The catalog of an Iceberg table: a SQLite file in its directory, another database, or a REST catalog."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.state import DIRECTORY
from odradek.pipelines.jobs.tables.table import one_line
from odradek.text.errors import UserError, as_sentence

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# The name of catalogs given by URL in PyIceberg's settings, for example PYICEBERG_CATALOG__ODRADEK__TOKEN.
_NAME: Final = "odradek"
_NAMESPACE: Final = "odradek"
_FILE: Final = "catalog.json"
_DATABASE: Final = "catalog.db"
_NOT_IN_NAMES: Final = re.compile(r"[^0-9A-Za-z_]")


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    address: str | None = None
    """sqlite:///FILE, http://…, or a name in PyIceberg's settings. None: a SQLite file in the table's directory."""
    table: str | None = None
    """NAMESPACE.NAME. None: the directory's name."""

    @classmethod
    def of(cls, directory: Path, requested: "CatalogPlace | None") -> "CatalogPlace":
        """Return the stored place of an existing table. Raises UserError if another one is requested."""
        requested = requested or cls()
        if requested.address is not None and _holds_secret(requested.address):
            raise UserError(
                "The catalog's address is stored with the table and must not contain a password. Set "
                f"PYICEBERG_CATALOG__{_NAME.upper()}__TOKEN or __CREDENTIAL instead."
            )
        if requested.table is not None and not all(requested.table.rpartition(".")):
            raise UserError(f"--catalog-table {requested.table!r} has no namespace. Write NAMESPACE.NAME.")
        file = directory / DIRECTORY / _FILE
        if not file.is_file():
            return cls(
                requested.address,
                requested.table or f"{_NAMESPACE}.{_NOT_IN_NAMES.sub('_', directory.absolute().name)}",
            )
        known = cls(**json.loads(file.read_text()))
        for name in ("address", "table"):
            if (given := getattr(requested, name)) not in (None, getattr(known, name)):
                raise UserError(f"The table is {known}, not {given}. Remove --catalog and --catalog-table.")
        return known

    def keep(self, directory: Path) -> None:
        file = directory / DIRECTORY / _FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"address": self.address, "table": self.table}) + "\n")

    @property
    def identifier(self) -> str:
        assert self.table is not None
        return self.table

    @property
    def namespace(self) -> str:
        return self.identifier.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{self.table} in {self.address or 'its own catalog'}"


def open_catalog(place: CatalogPlace, directory: Path) -> "Catalog":
    from pyiceberg.catalog import load_catalog

    from odradek.pipelines.jobs.tables.catalog_errors import explain_catalog_errors, secrets_of

    address = place.address
    if address is None:
        file = (directory / DIRECTORY / _DATABASE).absolute()
        file.parent.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{file}"
    name, settings = catalog_settings(address)
    try:
        with explain_catalog_errors(address, secrets_of(settings)):
            if settings.get("type") == "rest":
                from odradek.pipelines.jobs.tables.rest_catalog import BoundedRestCatalog

                return BoundedRestCatalog(name, **settings)
            return load_catalog(name, **settings)
    except (ValueError, ImportError) as error:
        raise UserError(as_sentence(f"Cannot open catalog {address}: {one_line(error)}")) from None


def catalog_settings(address: str) -> tuple[str, dict[str, Any]]:
    """Return the catalog's name and settings in PyIceberg's configuration, including secrets."""
    from pyiceberg.utils.config import Config

    name = _NAME if "://" in address else address
    settings: dict[str, Any] = dict(Config().get_catalog_config(name) or {})
    if "://" in address:
        settings |= {"uri": address, "type": "rest" if _is_web(address) else "sql"}
    elif _is_web(str(settings.get("uri"))) and "py-catalog-impl" not in settings:
        settings.setdefault("type", "rest")
    return name, settings


def _holds_secret(address: str) -> bool:
    """In a REST catalog's URL, user and query may be secrets too."""
    parts = urlsplit(address)
    return parts.password is not None or (_is_web(address) and bool(parts.username or parts.query))


def _is_web(address: str) -> bool:
    return address.startswith(("http://", "https://"))
