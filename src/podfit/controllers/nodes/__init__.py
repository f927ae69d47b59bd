"""Node lifecycle: leases, taints, eviction of pods from unreachable nodes; the nodes' pod ranges."""

from podfit.controllers.nodes.ipam import NodeIpamController
from podfit.controllers.nodes.lifecycle import NodeLifecycleController
from podfit.controllers.nodes.taints import TaintEvictionController

__all__ = ["NodeIpamController", "NodeLifecycleController", "TaintEvictionController"]
