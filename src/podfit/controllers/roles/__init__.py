"""Maintains the rules of aggregated ClusterRoles."""

from podfit.controllers.roles.aggregation import RoleAggregationController

__all__ = ["RoleAggregationController"]
