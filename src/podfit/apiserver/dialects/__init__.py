"""Older forms of in-place resize, translated in requests and responses. Stored objects are always native."""

from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.registry import Dialects, UnknownDialect

__all__ = ["Dialect", "Dialects", "UnknownDialect"]
