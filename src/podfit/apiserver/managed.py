"""Who set which field: metadata.managedFields, kept by every write."""

from __future__ import annotations

from podfit.apiserver.calls import Call
from podfit.apiserver.options import WriteOptions
from podfit.apiserver.writes import Track


def updates(call: Call, options: WriteOptions) -> Track | None:
    return None
