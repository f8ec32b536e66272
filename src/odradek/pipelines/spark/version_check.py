"""Driver and executors must have the same version, because they exchange pickled objects."""

import odradek


class VersionMismatch(RuntimeError):
    """An executor has another version than the driver."""


def check_version(drivers: str) -> None:
    if odradek.__version__ != drivers:
        raise VersionMismatch(
            f"This executor has odradek {odradek.__version__} but the driver has {drivers}. Install the same version "
            "on all machines."
        )
