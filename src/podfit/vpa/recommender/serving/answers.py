"""The recommender's own HTTP endpoints: the recommendation for an existing or future pod, and its explanation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiohttp import web

from podfit.kit.web.routes import Info
from podfit.vpa.recommender.decide.config import to_flags
from podfit.vpa.recommender.serving.explain import explain, judgements
from podfit.vpa.recommender.serving.queries import status_for

if TYPE_CHECKING:
    from podfit.vpa.recommender.loop import Recommender
    from podfit.vpa.serve.http import HttpServer

QUERY_VERSION = "autoscaling.podfit.dev/v1"


class Answers:
    def __init__(self, recommender: Recommender) -> None:
        self._of = recommender

    def serve(self, server: HttpServer) -> None:
        server.add("POST", "/recommendationQuery", self.query)
        server.add("GET", "/explain/{namespace}/{name}", self.explain)

    async def query(self, request: web.BaseRequest, info: Info) -> web.Response:
        try:
            body = json.loads(await request.read())
            pod = body["spec"]["pod"]
            if not isinstance(pod.get("metadata"), dict):
                raise TypeError("spec.pod has no metadata")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return web.json_response({"kind": "Status", "message": f"not a RecommendationQuery: {error}"}, status=400)
        status = await status_for(self._of, pod)
        answer = {"apiVersion": QUERY_VERSION, "kind": "RecommendationQuery", **body, "status": status}
        return web.json_response(answer)

    async def explain(self, request: web.BaseRequest, info: Info) -> web.Response:
        id = info["namespace"], info["name"]
        vpa = self._of.cluster.vpas.get(id)
        if vpa is None:
            return web.json_response({"kind": "Status", "message": f"no autoscaler {id[0]}/{id[1]}"}, status=404)
        ledger, config, plugin = self._of.ledger, self._of.cluster.config, self._of.plugin_of(vpa)
        needs = self._of.needs_of(vpa)
        states, pods = self._of.cluster.merged(vpa), len(vpa.pods)
        loans = self._of.loans_of(vpa)
        heaps, ooms, given = self._of.heaps_of(vpa), ledger.ooms_of(vpa), self._of.policies.given(vpa)
        probed = self._of.working_sets(vpa)
        story = explain(vpa.object, states, config, ooms, plugin, needs, pods, loans, heaps, probed, given)
        for name, judged in judgements(self._of.policies.live.judged(id)).items():
            story["containers"].get(name, {})["policies"] = judged
        story["recommender"], story["settings"] = plugin, to_flags(config)
        story["pods"] = pods
        story["conditions"] = (vpa.object.get("status") or {}).get("conditions") or []
        story["changes"] = ledger.changes_of(id)
        return web.json_response(story)
