"""The whole suite runs with shared objects frozen: a part that changes one fails (`podfit.api.objects`)."""

from __future__ import annotations

import os

os.environ.setdefault("PODFIT_FREEZE", "1")
