"""The credentials for leases on closed segments. Pure."""

from collections.abc import Mapping

from odradek.client.leases import LeaseCredentials
from odradek.pipelines.spark.errors import OptionError


def lease_options(options: Mapping[str, str]) -> LeaseCredentials | None:
    """Return None if all records are fetched from brokers. Option names must be in lower case."""
    principal, secret = options.get("leaseprincipal"), options.get("leasesecret")
    if not principal and not secret:
        return None
    if not principal or not secret:
        raise OptionError("Set both leasePrincipal and leaseSecret: a user of the brokers and its password.")
    return LeaseCredentials(principal, secret)
