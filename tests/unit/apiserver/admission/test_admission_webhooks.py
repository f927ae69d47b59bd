"""Webhooks over real TLS: which ones are called, with which requests, and the effects of their responses."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from podfit.api.registry.kinds import NAMESPACE, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import Plugin
from podfit.apiserver.admission.chain import Chain
from podfit.apiserver.admission.webhooks.plugins import Webhooks
from podfit.apiserver.auth.certs.certificates import Authority, new_authority

MUTATING, VALIDATING = kind_named("MutatingWebhookConfiguration"), kind_named("ValidatingWebhookConfiguration")
PODS = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


class HookServer:
    """Responses by path; the requests are kept."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.release = asyncio.Event()

    async def start(self, folder: Any) -> None:
        pair = new_authority("hooks", timedelta(days=1))
        self.ca = base64.b64encode(pair.cert).decode()
        cert = Authority.load(pair).server("hook", ["localhost", "127.0.0.1", "hook.ns.svc"], timedelta(days=1))
        (folder / "crt").write_bytes(cert.cert)
        (folder / "key").write_bytes(cert.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "crt", folder / "key")
        app = web.Application()
        app.router.add_post("/{name}", self.handle)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name, review = request.match_info["name"], await request.json()
        self.asked.append((name, review["request"]))
        answer = self.answers.get(name, {"allowed": True})
        if answer == "hang":
            await self.release.wait()
            answer = {"allowed": True}
        if isinstance(answer, int):
            return web.Response(status=answer, text="broken")
        if callable(answer):
            answer = answer(review["request"])
        response = {"uid": review["request"]["uid"], **answer}
        if "patch" in response:
            raw = json.dumps(response["patch"]).encode()
            response.update(patch=base64.b64encode(raw).decode(), patchType="JSONPatch")
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def hook(self, name: str, **more: Any) -> dict[str, Any]:
        client = {"url": f"https://localhost:{self.port}/{name}", "caBundle": self.ca}
        return {"name": f"{name}.example.com", "clientConfig": client, "rules": PODS, "sideEffects": "None", **more}

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


class HookHere:
    """A webhook in this process that allows everything."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.passing: set[Any] = set()
        self.failure: Exception | None = None

    def may_skip(self, resource: tuple[str, str], namespace: str, obj: Any) -> bool:
        return (resource, namespace) in self.passing

    async def answer_here(self, review: dict[str, Any]) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        request = review["request"]
        self.reported.append(request["name"])
        response = {"uid": request["uid"], "allowed": True}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


@pytest.fixture
async def hooks(tmp_path):
    server = HookServer()
    await server.start(tmp_path)
    yield server
    server.release.set()
    await server.runner.cleanup()


@pytest.fixture
async def webhooks(cluster):
    made = Webhooks(cluster)
    yield made
    await made.close()


def configured(cluster, kind, name: str, *hooks: dict[str, Any]) -> None:
    cluster.put(kind, {"metadata": {"name": name}, "webhooks": list(hooks)})


def add_label(key: str) -> dict[str, Any]:
    return {"allowed": True, "patch": [{"op": "add", "path": f"/metadata/labels/{key}", "value": "yes"}]}


async def test_mutating_hooks_run_in_order_of_configuration_and_see_each_others_changes(
    cluster, webhooks, hooks, write, pod
):
    configured(cluster, MUTATING, "b", hooks.hook("second"))
    configured(cluster, MUTATING, "a", hooks.hook("first"))
    hooks.answers = {"first": add_label("one"), "second": add_label("two")}
    obj = pod()
    obj["metadata"]["labels"] = {}
    attrs = write(obj)
    await webhooks.mutating.admit(attrs)
    assert hooks.names == ["first", "second"]
    assert hooks.asked[1][1]["object"]["metadata"]["labels"] == {"one": "yes"}
    assert attrs.object["metadata"]["labels"] == {"one": "yes", "two": "yes"}


async def test_a_hook_gets_the_user_the_operation_and_the_object(cluster, webhooks, hooks, write, pod):
    configured(cluster, VALIDATING, "v", hooks.hook("look"))
    attrs = write(pod(), options={"fieldManager": "me"})
    await webhooks.validating.validate(attrs)
    request = hooks.asked[0][1]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["name"], request["namespace"], request["operation"]) == ("p", "ns", "CREATE")
    assert request["userInfo"]["username"] == "kubernetes-admin"
    assert request["oldObject"] is None and request["dryRun"] is False
    assert request["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "me",
    }


async def test_denial_carries_the_hooks_words_code_and_reason(cluster, webhooks, hooks, write, pod):
    configured(cluster, VALIDATING, "v", hooks.hook("no"))
    hooks.answers["no"] = {"allowed": False, "status": {"message": "too big", "code": 403, "reason": "Forbidden"}}
    with pytest.raises(ApiError) as caught:
        await webhooks.validating.validate(write(pod()))
    assert caught.value.message == 'admission webhook "no.example.com" denied the request: too big'
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


async def test_denial_without_words_is_a_400_without_explanation(cluster, webhooks, hooks, write, pod):
    configured(cluster, VALIDATING, "v", hooks.hook("no"))
    hooks.answers["no"] = {"allowed": False}
    with pytest.raises(ApiError) as caught:
        await webhooks.validating.validate(write(pod()))
    assert caught.value.message == 'admission webhook "no.example.com" denied the request without explanation'
    assert caught.value.code == 400


async def test_broken_hook_fails_the_write_unless_its_policy_is_to_ignore(cluster, webhooks, hooks, write, pod):
    hooks.answers["broken"] = 500
    configured(cluster, VALIDATING, "v", hooks.hook("broken", failurePolicy="Ignore"))
    await webhooks.validating.validate(write(pod()))
    configured(cluster, VALIDATING, "v", hooks.hook("broken", failurePolicy="Fail"))
    with pytest.raises(ApiError) as caught:
        await webhooks.validating.validate(write(pod()))
    assert (caught.value.code, caught.value.reason) == (500, "InternalError")
    assert caught.value.message.startswith(
        'Internal error occurred: failed calling webhook "broken.example.com": failed to call webhook: '
    )


async def test_hook_that_does_not_answer_in_time_fails(cluster, webhooks, hooks, write, pod):
    hooks.answers["slow"] = "hang"
    configured(cluster, VALIDATING, "v", hooks.hook("slow", timeoutSeconds=1))
    with pytest.raises(ApiError, match="context deadline exceeded"):
        await webhooks.validating.validate(write(pod()))


async def test_hook_with_an_untrusted_certificate_is_not_believed(cluster, webhooks, hooks, write, pod):
    other = base64.b64encode(new_authority("other", timedelta(days=1)).cert).decode()
    hook = hooks.hook("look")
    hook["clientConfig"]["caBundle"] = other
    configured(cluster, VALIDATING, "v", hook)
    with pytest.raises(ApiError, match="failed to verify certificate"):
        await webhooks.validating.validate(write(pod()))
    assert hooks.asked == []


@pytest.mark.parametrize("bundle", ["!", "bm9uc2Vuc2U=", "gICA"])
async def test_unreadable_ca_bundle_fails_like_an_unreachable_hook(cluster, webhooks, hooks, write, pod, bundle):
    hook = hooks.hook("look")
    hook["clientConfig"]["caBundle"] = bundle
    configured(cluster, VALIDATING, "v", hook)
    with pytest.raises(ApiError, match="failed to call webhook: unable to load root certificates"):
        await webhooks.validating.validate(write(pod()))


async def test_service_is_resolved_and_its_name_is_what_the_certificate_must_carry(cluster, hooks, write, pod):
    asked = []

    def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
        asked.append((namespace, name, port))
        return "127.0.0.1", hooks.port

    service = {"service": {"namespace": "ns", "name": "hook", "path": "/look"}, "caBundle": hooks.ca}
    configured(cluster, VALIDATING, "v", {**hooks.hook("look"), "clientConfig": service})
    webhooks = Webhooks(cluster, resolve)
    try:
        await webhooks.validating.validate(write(pod()))
    finally:
        await webhooks.close()
    assert asked == [("ns", "hook", 443)] and hooks.names == ["look"]


async def test_rules_selectors_and_conditions_decide_which_webhooks_are_called(cluster, webhooks, hooks, write, pod):
    resize = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/resize"]}]
    cluster_wide = [{**PODS[0], "scope": "Cluster"}]
    configured(
        cluster,
        VALIDATING,
        "v",
        hooks.hook("other-resource", rules=resize),
        hooks.hook("other-scope", rules=cluster_wide),
        hooks.hook("other-namespace", namespaceSelector={"matchLabels": {"team": "a"}}),
        hooks.hook("other-object", objectSelector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        hooks.hook("condition", matchConditions=[{"name": "c", "expression": "object.metadata.name == 'q'"}]),
        hooks.hook("asked", matchConditions=[{"name": "c", "expression": "request.operation == 'CREATE'"}]),
    )
    await webhooks.validating.validate(write(pod()))
    assert hooks.names == ["asked"]
    cluster.put(NAMESPACE, {"metadata": {"name": "ns", "labels": {"team": "a"}}})
    await webhooks.validating.validate(write(pod()))
    assert sorted(hooks.names) == ["asked", "asked", "other-namespace"]


async def test_condition_that_cannot_be_evaluated_follows_the_failure_policy(cluster, webhooks, hooks, write, pod):
    bad = [{"name": "c", "expression": "object.spec.nothing.here == 1"}]
    configured(cluster, VALIDATING, "v", hooks.hook("x", matchConditions=bad, failurePolicy="Ignore"))
    await webhooks.validating.validate(write(pod()))
    configured(cluster, VALIDATING, "v", hooks.hook("x", matchConditions=bad, failurePolicy="Fail"))
    with pytest.raises(
        ApiError, match="expression 'object.spec.nothing.here == 1' resulted in error: no such key: nothing"
    ):
        await webhooks.validating.validate(write(pod()))
    assert hooks.asked == []


async def test_dry_run_refuses_hooks_with_side_effects(cluster, webhooks, hooks, write, pod):
    configured(cluster, VALIDATING, "v", hooks.hook("x", sideEffects="Some"))
    with pytest.raises(ApiError) as caught:
        await webhooks.validating.validate(write(pod(), dry_run=True))
    assert caught.value.message == 'admission webhook "x.example.com" does not support dry run'
    assert caught.value.code == 400


async def test_warnings_and_audit_annotations_reach_the_client(cluster, webhooks, hooks, write, pod):
    configured(cluster, VALIDATING, "v", hooks.hook("x"))
    hooks.answers["x"] = {"allowed": True, "warnings": ["old field"], "auditAnnotations": {"k": "v"}}
    attrs = write(pod())
    await webhooks.validating.validate(attrs)
    assert attrs.warnings == ["old field"] and attrs.annotations == {"x.example.com/k": "v"}


async def test_an_earlier_hook_is_reinvoked_when_a_later_one_changed_the_object(cluster, webhooks, hooks, write, pod):
    configured(
        cluster,
        MUTATING,
        "m",
        hooks.hook("again", reinvocationPolicy="IfNeeded"),
        hooks.hook("once"),
        hooks.hook("changes"),
    )
    hooks.answers["changes"] = add_label("x")
    obj = pod()
    obj["metadata"]["labels"] = {}
    await Chain([webhooks.mutating]).admit(write(obj))
    assert hooks.names == ["again", "once", "changes", "again"]
    assert hooks.asked[3][1]["object"]["metadata"]["labels"] == {"x": "yes"}


async def test_no_webhook_is_called_again_if_nothing_changed(cluster, webhooks, hooks, write, pod):
    configured(cluster, MUTATING, "m", hooks.hook("again", reinvocationPolicy="IfNeeded"), hooks.hook("once"))
    await Chain([webhooks.mutating]).admit(write(pod()))
    assert hooks.names == ["again", "once"]


async def test_built_in_plugins_see_what_a_hook_made(cluster, webhooks, hooks, write, pod):
    class Counts(Plugin):
        name = "Counts"
        seen: list[int] = []

        async def admit(self, attrs):
            self.seen.append(len(attrs.object["spec"]["containers"]))

    sidecar = {"name": "sidecar", "image": "x"}
    configured(cluster, MUTATING, "m", hooks.hook("inject"))
    hooks.answers["inject"] = {
        "allowed": True,
        "patch": [{"op": "add", "path": "/spec/containers/-", "value": sidecar}],
    }
    await Chain([Counts(), webhooks.mutating]).admit(write(pod()))
    assert Counts.seen == [1, 2] and hooks.names == ["inject"]


async def test_webhook_configurations_themselves_are_never_shown_to_hooks(cluster, webhooks, hooks, write):
    everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    configured(cluster, VALIDATING, "v", hooks.hook("x", rules=everything))
    attrs = write({"metadata": {"name": "w"}}, kind=VALIDATING)
    await Chain([webhooks.mutating, webhooks.validating]).validate(attrs)
    assert hooks.asked == []


async def test_patch_that_does_not_apply_is_an_internal_error(cluster, webhooks, hooks, write, pod):
    configured(cluster, MUTATING, "m", hooks.hook("x"))
    hooks.answers["x"] = {"allowed": True, "patch": [{"op": "remove", "path": "/spec/nothing"}]}
    with pytest.raises(ApiError) as caught:
        await webhooks.mutating.admit(write(pod()))
    assert caught.value.code == 500


async def test_a_hook_of_this_process_is_called_without_a_socket_and_others_are_not(
    cluster, webhooks, hooks, write, pod
):
    here = HookHere()
    webhooks.serve_here(lambda url: here if "/mine" in url else None)
    configured(cluster, VALIDATING, "v", hooks.hook("mine"), hooks.hook("theirs"))
    await webhooks.validating.validate(write(pod()))
    assert here.reported == ["p"] and hooks.names == ["theirs"]


async def test_a_hook_of_this_process_is_not_called_for_objects_that_it_may_skip(cluster, webhooks, hooks, write, pod):
    here = HookHere()
    here.passing = {(("", "pods"), "ns")}
    webhooks.serve_here(lambda url: here)
    condition = {"name": "any", "expression": "true"}
    configured(cluster, VALIDATING, "v", hooks.hook("mine"), hooks.hook("choosy", matchConditions=[condition]))
    await webhooks.validating.validate(write(pod()))
    assert here.reported == ["p"], "only the one with conditions"


async def test_broken_hook_of_this_process_fails_like_any_other(cluster, webhooks, hooks, write, pod):
    here = HookHere()
    here.failure = RuntimeError("no idea")
    webhooks.serve_here(lambda url: here)
    configured(cluster, VALIDATING, "v", hooks.hook("mine", failurePolicy="Fail"))
    with pytest.raises(ApiError, match='an error on the server \\("no idea"\\)'):
        await webhooks.validating.validate(write(pod()))
