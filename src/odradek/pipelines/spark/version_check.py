"""Driver and executors have the same odradek: what travels between them is made of its classes."""

import odradek


class VersionMismatch(RuntimeError):
    """An executor has another one."""


def check_version(drivers: str) -> None:
    if odradek.__version__ != drivers:
        raise VersionMismatch(
            f"This executor has odradek {odradek.__version__} but the driver has {drivers}. Install the same version "
            "on all machines."
        )
