"""Maintains the ServiceAccount `default` and the cluster's root certificate in every namespace, and fills token
Secrets."""

from podfit.controllers.accounts.controller import AccountsController
from podfit.controllers.accounts.tokens import TokensController

__all__ = ["AccountsController", "TokensController"]
