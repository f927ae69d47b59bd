"""`podfit explain pod|vpa|resize NAME`: why this number, why not resized, why not scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.connect import Context, Kubeconfig, Namespace, connected
from podfit.cli.output import DATA, DataOutput, check_format, print_object, say, wrong
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.connect import Session

WHAT = {"pod": "pod", "pods": "pod", "po": "pod", "vpa": "vpa", "resize": "resize"}


def add_to(app: typer.Typer) -> None:
    app.command("explain", help="Explain a pod's node, a resize or a recommendation.")(explain)


def explain(
    what: Annotated[str, typer.Argument(metavar="pod|vpa|resize", help="What is to be explained.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod (pod, resize) or the autoscaler (vpa).")],
    output: DataOutput = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, DATA)
    if what not in WHAT:
        wrong(f"explain {what!r}: it is pod, vpa or resize")

    async def main() -> int:
        async with connected(kubeconfig, context, namespace) as session:
            lines, found = await _explained(session, WHAT[what], name.rpartition("/")[2])
            if output:
                print_object(output, found)
            else:
                say("\n".join(line for line in lines if line))
            return 0

    finish(main())


async def _explained(session: Session, what: str, name: str) -> tuple[list[str], dict[str, Any]]:
    from podfit.api.kinds import POD, VPA
    from podfit.cli.explaining.autoscalers import explain_vpa
    from podfit.cli.explaining.places import explain_place
    from podfit.cli.explaining.resizes import explain_resize

    if what == "vpa":
        return await explain_vpa(session.client, await session.client.get(VPA, session.namespace, name))
    pod = await session.client.get(POD, session.namespace, name)
    return await (explain_place if what == "pod" else explain_resize)(session.client, pod)
