"""ResourceQuota status."""

from podfit.controllers.quota.controller import QuotaController

__all__ = ["QuotaController"]
