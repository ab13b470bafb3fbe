"""The pods' modes, through their control port: best effort, after everything that counts was written."""

import asyncio
from collections.abc import Mapping, Sequence

from backstay_contract.names import Port
from backstay_contract.status import Colour

from backstay_operator.http import Http, HttpError, host
from backstay_operator.rollout.decision import ColourPlan
from backstay_operator.rollout.observation import ColourState, Pod


def changes(states: Mapping[Colour, ColourState], plans: Mapping[Colour, ColourPlan]) -> Sequence[tuple[Pod, str]]:
    """Pods whose mode shall be another than the one they gave; who did not answer is asked again in the next pass."""
    return [
        (pod, plan.mode)
        for colour, plan in plans.items()
        for pod in states[colour].pods
        if plan.mode is not None and pod.mode is not None and pod.mode != plan.mode and not pod.terminating
    ]


async def put(http: Http, token: str, wanted: Sequence[tuple[Pod, str]]) -> Sequence[str]:
    """Sets the modes, all at once. What went wrong comes back as sentences: the next pass tries again."""
    answers = await asyncio.gather(*(_one(http, token, pod, mode) for pod, mode in wanted))
    return [answer for answer in answers if answer]


async def _one(http: Http, token: str, pod: Pod, mode: str) -> str:
    url = f"http://{host(pod.ip or '')}:{Port.CONTROL}/control/mode"
    try:
        answer = await http.ask("PUT", url, headers={"Authorization": f"Bearer {token}"}, body={"mode": mode})
    except HttpError as error:
        return f"pod {pod.name}: mode {mode}: {error}"
    return "" if answer.status == 200 else f"pod {pod.name}: mode {mode}: the control port answered {answer.status}"
