"""PodDisruptionBudget status."""

from podfit.controllers.disruption.controller import DisruptionController

__all__ = ["DisruptionController"]
