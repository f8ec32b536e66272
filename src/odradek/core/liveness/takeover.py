"""When a process may take over a broker ID while the session of the process that registered it is alive.

A broker that was killed must be able to restart at once. But the other process may be alive, and this one may run on a
copy of its disk, with the same directory IDs. So the active controller probes the endpoint of the other process, and
only a refused connection can be proof. Three things could mislead it:

- The probe may reach the process that registers. That one does not listen before its registration, neither in Odradek
  nor in Apache Kafka, so its port refuses the connection as well. The open connection of the other one's heartbeats
  shows that it is alive.
- Something on the way may refuse the connection. So the refusal counts only if the registration has accepted a
  connection before, or if the process that registers is at the probed endpoint: then the refusal is its own.
- A controller that has just started has reached no broker yet. The broker in its own process still registers at once:
  this process leads the quorum with that node ID, so that only an open port at the old endpoint speaks against it.
"""

from collections.abc import Collection
from uuid import UUID

from odradek.core.liveness.probes import ProbeResult
from odradek.core.metadata.image import BrokerImage


def may_be_dead(
    registered: BrokerImage,
    *,
    incarnation_id: UUID,
    directories: Collection[UUID],
    sends_heartbeats: bool,
    is_of_own_node: bool,
    is_in_own_process: bool,
) -> bool:
    """Whether a probe of the registered process is of use. The first two arguments are of the process that registers.

    `sends_heartbeats`: the connection of its last heartbeat is open. `is_of_own_node`: the broker has the ID of this
    controller's node. `is_in_own_process`: the registration comes from within the process of this controller.
    """
    if registered.incarnation_id == incarnation_id or sends_heartbeats:
        return False
    if set(registered.directories).isdisjoint(directories):
        return False
    # The broker in this controller's own process is alive, or will register itself.
    return is_in_own_process or not is_of_own_node


def is_proof_of_death(
    result: ProbeResult, *, has_accepted_before: bool, is_at_probed_endpoint: bool, is_in_own_process: bool
) -> bool:
    """`is_at_probed_endpoint`: the process that registers has the endpoint that was probed."""
    if is_in_own_process:
        return result is not ProbeResult.CONNECTED
    return result is ProbeResult.REFUSED and (has_accepted_before or is_at_probed_endpoint)
