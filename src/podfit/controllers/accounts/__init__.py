"""What every namespace has: the default ServiceAccount and the cluster's root certificate."""

from podfit.controllers.accounts.controller import AccountsController

__all__ = ["AccountsController"]
