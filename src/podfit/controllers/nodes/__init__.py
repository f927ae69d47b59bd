"""Node lifecycle: leases, taints, eviction of pods from nodes that are away."""

from podfit.controllers.nodes.lifecycle import NodeLifecycleController
from podfit.controllers.nodes.taints import TaintEvictionController

__all__ = ["NodeLifecycleController", "TaintEvictionController"]
