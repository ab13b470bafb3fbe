"""The two Deployments: rendered when an attempt begins, afterwards only scaled."""

from typing import Any

from backstay_contract import names
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour

from backstay_operator import kinds
from backstay_operator.apply.names import check_deployment
from backstay_operator.client import Client
from backstay_operator.desired.common import Owner
from backstay_operator.desired.deployment import deployment
from backstay_operator.rollout.decision import ColourPlan

Json = dict[str, Any]


async def bring(
    client: Client,
    owner: Owner,
    spec: ModelDeploymentSpec,
    colour: Colour,
    plan: ColourPlan,
    live: Json | None,
    token_hash: str,
) -> bool:
    """Carry out one colour's plan; False where nothing had to be written.

    Without `build` the template stays exactly as it is, so a newer operator that renders differently restarts nothing.
    """
    name = names.deployment(owner.name, colour)
    if plan.anew and live is not None:
        await client.delete(kinds.DEPLOYMENT, owner.namespace, name, live["metadata"]["uid"])
        return True
    if plan.build is not None:
        if live is None:
            await check_deployment(client, owner, name)
        body = deployment(
            owner,
            spec,
            colour,
            plan.build,
            attempt=plan.attempt,
            replicas=plan.replicas,
            token_hash=token_hash,
        )
        await client.apply(kinds.DEPLOYMENT, body)
        return True
    if live is None or live["spec"].get("replicas") == plan.replicas:
        return False
    # The uid makes sure that it is this very Deployment: another of the same name is refused.
    body = {"metadata": {"uid": live["metadata"]["uid"]}, "spec": {"replicas": plan.replicas}}
    await client.merge_patch(kinds.DEPLOYMENT, owner.namespace, name, body)
    return True
