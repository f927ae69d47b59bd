"""The names of the resize dialects, and how a namespace or a client chooses one.

A dialect is an older form of in-place resize that the API server translates to and from the native one. The forms
themselves are in `podfit.apiserver.dialects`.
"""

from __future__ import annotations

LABEL = "podfit.dev/resize-dialect"
"""The label of a namespace whose pods are served in another dialect than the server's default."""
HEADER = "X-Podfit-Resize-Dialect"
"""The request header by which a client asks for the native form (`v1.35`) whatever the namespace says."""
NATIVE = "v1.35"
DESIGN_2020, DESIGN_2021, V1_31, V1_32 = "2020", "2021", "v1.31", "v1.32"
DIALECTS = (DESIGN_2020, DESIGN_2021, V1_31, V1_32, NATIVE)
NATIVE_HEADERS = {HEADER: NATIVE}
