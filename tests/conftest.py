"""No test fails for being slow: hypothesis would otherwise refuse an example that a busy machine took long for."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("podfit", deadline=None)
settings.load_profile("podfit")
