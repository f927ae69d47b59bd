"""Empties and removes namespaces that are being deleted."""

from podfit.controllers.namespaces.controller import NamespaceController

__all__ = ["NamespaceController"]
