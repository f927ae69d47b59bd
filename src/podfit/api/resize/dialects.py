"""The names of the resize dialects, and how a namespace or a client selects one.

A dialect is an older form of in-place resize that the API server translates to and from the native one. The
translations are in `podfit.apiserver.dialects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LABEL = "podfit.dev/resize-dialect"
"""The label of a namespace whose pods are served in a dialect other than the server's default."""
HEADER = "X-Podfit-Resize-Dialect"
"""The request header by which a client requests the native form (`v1.35`) regardless of the namespace."""
NATIVE = "v1.35"
DESIGN_2020, DESIGN_2021, V1_31, V1_32 = "2020", "2021", "v1.31", "v1.32"
DIALECTS = (DESIGN_2020, DESIGN_2021, V1_31, V1_32, NATIVE)
VERSION_FIELD = "resizeDialect"
"""The field of `/version` that names the server's default, if that is not the native form."""
NATIVE_HEADERS = {HEADER: NATIVE}


def dialect_of(labels: Mapping[str, Any] | None, default: str = NATIVE) -> str:
    """The dialect of a namespace with these labels."""
    label = (labels or {}).get(LABEL)
    return label if label in DIALECTS else default
