"""Default objects of every namespace: the ServiceAccount `default` and the cluster's root certificate; and Secrets with
tokens."""

from podfit.controllers.accounts.controller import AccountsController
from podfit.controllers.accounts.tokens import TokensController

__all__ = ["AccountsController", "TokensController"]
