"""The manifests shipped with podfit, in the order in which they are applied."""

from __future__ import annotations

from importlib.resources import files

import yaml

from podfit.api.objects import Object

_OWN_IMAGE = "podfit:latest"


def manifests(what: str, image: str = "") -> list[Object]:
    """The manifests of `deploy/WHAT`; containers use `image` if it is given."""
    folder = files("podfit").joinpath("manifests", what)
    listed = yaml.safe_load(folder.joinpath("kustomization.yaml").read_text())["resources"]
    found: list[Object] = []
    for name in listed:
        found += [
            manifest for manifest in yaml.safe_load_all(folder.joinpath(*name.split("/")).read_text()) if manifest
        ]
    return [with_image(manifest, image) for manifest in found] if image else found


def with_image(body: Object, image: str) -> Object:
    """The same object, with podfit's own image replaced."""
    template = (body.get("spec") or {}).get("template")
    if not isinstance(template, dict) or "spec" not in template:
        return body
    containers = [
        {**container, "image": image} if container.get("image") == _OWN_IMAGE else container
        for container in template["spec"]["containers"]
    ]
    changed = {**template, "spec": {**template["spec"], "containers": containers}}
    return {**body, "spec": {**body["spec"], "template": changed}}


def images(bodies: list[Object]) -> list[str]:
    """The images of the containers, each once."""
    found = [
        container["image"]
        for body in bodies
        if body["kind"] == "Deployment"
        for container in body["spec"]["template"]["spec"]["containers"]
    ]
    return list(dict.fromkeys(found))
