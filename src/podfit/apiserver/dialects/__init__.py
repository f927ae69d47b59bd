"""Older forms of in-place resize, translated at the edge of the API. Stored objects are always native."""

from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.registry import Dialects, UnknownDialect

__all__ = ["Dialect", "Dialects", "UnknownDialect"]
