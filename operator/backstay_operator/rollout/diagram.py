"""The picture of the rollout, drawn from the transition table: docs/rollout.md holds what these functions give."""

from collections.abc import Iterable

from backstay_contract.status import Phase

from backstay_operator.rollout.transitions import TRANSITIONS, Stage, Transition


def mermaid() -> str:
    """A Mermaid state diagram of the table's steps, without rows that stay in their phase and those that only
    catch up after a crash. Steps at rest are drawn from Serving only: they are the same from the other phases."""
    lines = ["stateDiagram-v2", "    [*] --> Pending"]
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in TRANSITIONS:
        if row.guard.__name__.endswith("_unrecorded"):
            continue
        for source in _drawn(row):
            for target in _targets(row):
                if source.value != target:
                    labels = arrows.setdefault((source.value, target), [])
                    label = words(row.guard.__name__)
                    if label not in labels:
                        labels.append(label)
    lines += [f"    {source} --> {target}: {', '.join(labels)}" for (source, target), labels in arrows.items()]
    return "\n".join(lines)


def table() -> str:
    """The table itself as Markdown, in the order in which its rows are asked."""
    head = "| in phase | attempt | when | then | reason |\n| --- | --- | --- | --- | --- |"
    return "\n".join([head, *(_line(row) for row in TRANSITIONS)])


def _line(row: Transition) -> str:
    target = row.target.value if row.without_active is None else f"{row.target} (or {row.without_active})"
    cells = (_listed(p.value for p in row.sources), _STAGES[row.stage], words(row.guard.__name__), target, row.reason)
    return "| " + " | ".join(cells) + " |"


_STAGES = {Stage.REST: "none", Stage.TRIED: "before the flip", Stage.SWITCHED: "after the flip"}


def _drawn(row: Transition) -> tuple[Phase, ...]:
    at_rest = row.stage is Stage.REST and Phase.SERVING in row.sources
    return (Phase.SERVING,) if at_rest else row.sources


def _targets(row: Transition) -> Iterable[str]:
    yield row.target.value
    if row.without_active is not None:
        yield row.without_active.value


def _listed(values: Iterable[str]) -> str:
    return ", ".join(values)


def words(name: str) -> str:
    """A guard's name as words."""
    return name.replace("_", " ")
