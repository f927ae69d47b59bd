"""Builds the disk for cloud-init's NoCloud source, with the name, keys and user data that the pod defines.

https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from podfit.api.pods.machines import SSH_KEYS, USER_DATA, USER_DATA_BASE64
from podfit.cri import api_pb2 as cri
from podfit.vm.decide.refusals import Invalid
from podfit.vm.guest.iso import iso_image

LABEL = "cidata"


def seed(annotations: Mapping[str, str], uid: str, hostname: str) -> bytes | None:
    """The image of the disk; None for a pod without such data. Raises Invalid."""
    data, keys = _user_data(annotations), _keys(annotations)
    if data is None and not keys:
        return None
    # JSON is YAML.
    meta = {"instance-id": uid, "local-hostname": hostname, "public-keys": keys}
    files = {"meta-data": json.dumps(meta).encode() + b"\n", "user-data": data or b"#cloud-config\n{}\n"}
    return iso_image(LABEL, files)


def seed_of(config: cri.PodSandboxConfig) -> bytes | None:
    return seed(config.annotations, config.metadata.uid, config.hostname)


def _keys(annotations: Mapping[str, str]) -> list[str]:
    return [line.strip() for line in annotations.get(SSH_KEYS, "").splitlines() if line.strip()]


def _user_data(annotations: Mapping[str, str]) -> bytes | None:
    """The user data: a text, encoded data, or both as the parts of one message."""
    text, encoded = annotations.get(USER_DATA, ""), annotations.get(USER_DATA_BASE64, "")
    if text and not text.startswith("#"):
        # cloud-init ignores parts without a known header.
        text = f"#!/bin/sh\n{text}"
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise Invalid(f"annotation {USER_DATA_BASE64} is not base64: {error}") from error
    if not data:
        return text.encode() or None
    if not text:
        return data
    message = MIMEMultipart()
    for part in (data.decode("utf-8", "replace"), text):
        message.attach(MIMEText(part, "plain", "utf-8"))
    return message.as_bytes()
