"""The demo's screen: the pods, their four states, their usage, and the latest Events."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from podfit.api.objects import Object
from podfit.cli.demo.history import ContainerSeen, Moved, Seen, spark
from podfit.cli.demo.stage import Stage
from podfit.cli.node_side import STATES
from podfit.cli.printing.amounts import RESOURCES, amount_text, number, pair_text
from podfit.cli.printing.event_rows import when
from podfit.cli.printing.output import span
from podfit.cli.printing.wording import condition_words, notable, sized_words
from podfit.cli.resizing.stages import step_of

EVENTS = 7
WIDE = 116
SHOWN_REASONS = ("Resize", "InPlace", "Scheduled", "Started", "OOM", "Evict")


class Screen:
    def __init__(self, stage: Stage, banner: list[str], console: Console | None = None) -> None:
        self._stage, self._banner = stage, banner
        self.console = console or Console()
        self._live = Live(console=self.console, auto_refresh=False, screen=False, vertical_overflow="crop")

    def __enter__(self) -> Screen:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def moved(self, moves: list[Moved]) -> None:
        self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        stage = self._stage
        parts: list[RenderableType] = [*(Text(line, style="yellow") for line in self._banner)]
        narrow = self.console.width < WIDE
        parts.append(pods_table(stage.running(), stage.seen, narrow))
        if narrow:
            parts.append(usage_table(stage.seen))
        parts.append(Panel(self._words(), title="in words", title_align="left", border_style="dim"))
        parts.append(Panel(self._events(), title="last events", title_align="left", border_style="dim"))
        place = place_from_here(self._stage.kubeconfig)
        parts.append(Text(f"Your turn: export KUBECONFIG={place}; kubectl get pods -n demo", style="dim"))
        age = span(time.monotonic() - stage.started)
        title = f"podfit demo · {age} · {stage.seen.summary} · Ctrl-C ends it"
        return Panel(Group(*parts), title=title, title_align="left", border_style="cyan")

    def _words(self) -> Text:
        lines = []
        for pod in self._stage.running():
            lines += [f"{pod['metadata']['labels']['app']}: {line}" for line in conditions(pod)]
        lines += [f"manual resize: {line}" for line in self._stage.typed[-1:]]
        lines += [f"just now: {move}" for move in self._stage.seen.moves[-2:]]
        return Text("\n".join(lines) or "all pods have what they ask for")

    def _events(self) -> Text:
        chosen = [event for event in self._stage.events if (event.get("reason") or "").startswith(SHOWN_REASONS)]
        recent = sorted(chosen, key=when)[-EVENTS:]
        return Text("\n".join(event_line(event) for event in recent) or "none yet", no_wrap=True, overflow="ellipsis")


def place_from_here(path: Path) -> str:
    """A path for a shell in the working directory: one below it is shown relative."""
    here = Path.cwd()
    return f"$PWD/{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def conditions(pod: Object) -> list[str]:
    return [
        condition_words(condition)
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if notable(condition)
    ]


def event_line(event: Object) -> str:
    name = (event.get("involvedObject") or {}).get("name") or ""
    message = sized_words(str(event.get("message") or ""))
    return f"{when(event)[11:19]} {event.get('reason'):<19} {name.split('-')[0]:<7} {message}"


def pods_table(pods: list[Object], seen: Seen, narrow: bool = False) -> Table:
    """`narrow` omits columns that only fit into a wide terminal."""
    table = Table(expand=True, box=None, pad_edge=False, header_style="bold")
    for title in ("container", "", *STATES, "usage", *(() if narrow else ("", "restarts", "resize"))):
        table.add_column(title, no_wrap=True)
    for pod in pods:
        for (name, container), known in list(seen.containers.items()):
            if name == pod["metadata"]["name"]:
                for resource in RESOURCES:
                    cells = _cells(known, resource)
                    table.add_row(container, resource, *(cells if narrow else [*cells, *_more(pod, known, resource)]))
                    container = ""
    return table


def usage_table(seen: Seen) -> Table:
    """The columns that a narrow terminal has no room for beside the states, as a table of one line per container."""
    table = Table.grid(padding=(0, 1))
    for (_, container), known in seen.containers.items():
        cells: list[RenderableType] = [f"{container} uses"]
        for resource in RESOURCES:
            cells += [resource, Text(spark(known.usage[resource], _request(known, resource)), style="green")]
        table.add_row(*cells, f"restarts {known.restarts}")
    return table


def _more(pod: Object, known: ContainerSeen, resource: str) -> list[RenderableType]:
    values, limit = known.usage[resource], _limit(known, resource)
    style = "red" if values and limit and values[-1] >= 0.9 * limit else "green"
    line = Text(spark(values, _request(known, resource)), style=style)
    if resource != RESOURCES[0]:
        return [line, "", ""]
    step = step_of(pod)
    return [line, str(known.restarts), Text(step.reason or step.stage, style="green" if step.done else "yellow")]


def _cells(known: ContainerSeen, resource: str) -> list[RenderableType]:
    shown: list[RenderableType] = []
    first = pair_text(known.states.get("desired"), resource)
    for state in STATES:
        text = pair_text(known.states.get(state), resource)
        same = text == first or (state == "actual" and _limits_agree(known.states, resource))
        shown.append(Text(text, style="" if same else "bold yellow"))
    values = known.usage[resource]
    return [*shown, amount_text(resource, values[-1] if values else None)]


def _request(known: ContainerSeen, resource: str) -> int:
    """The request, against which usage is drawn: a full bar means that the request is fully used."""
    return number(resource, ((known.states.get("desired") or {}).get("requests") or {}).get(resource))


def _limit(known: ContainerSeen, resource: str) -> int:
    return number(resource, ((known.states.get("actual") or {}).get("limits") or {}).get(resource))


def _limits_agree(states: Object, resource: str) -> bool:
    one, other = (((states.get(state) or {}).get("limits") or {}).get(resource) for state in ("desired", "actual"))
    return number(resource, one) == number(resource, other)
