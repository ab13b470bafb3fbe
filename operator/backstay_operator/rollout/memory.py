"""What stands in the status or on the Service may be another version's, or edited: it is read with that in mind.

A pass that stopped at a word it does not know would leave the resource without an operator.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from backstay_contract.reasons import Reason
from backstay_contract.status import ModelDeploymentStatus, parse_status
from pydantic import ValidationError

MAX_REPAIRS = 500
"""Parts that are left out before nothing of the status is believed."""


def reason(text: str, otherwise: Reason) -> Reason:
    """The reason of that name, or the other one where this version knows no such word."""
    return Reason(text) if text in set(Reason) else otherwise


def status(stored: Mapping[str, Any]) -> ModelDeploymentStatus:
    """The stored status as far as this version can read it: the smallest parts that it cannot read are left out."""
    body = dict(stored)
    for tried in range(MAX_REPAIRS):
        try:
            return parse_status(body)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            where = wrong["loc"][:-1] if wrong["type"] == "missing" else wrong["loc"]
            if not where:
                break
            if tried == 0:
                body = copy.deepcopy(body)  # what is stored is compared with later
            _leave_out(body, where, wrong.get("ctx", {}).get("max_length"))
    return ModelDeploymentStatus()


def _leave_out(body: dict[str, Any], where: Sequence[int | str], longest: int | None) -> None:
    """Takes away what stands there; of a list that is too long only its oldest part."""
    holder: Any = body
    try:
        for part in where[:-1]:
            holder = holder[part]
        found = holder[where[-1]]
        if isinstance(found, list) and longest:
            holder[where[-1]] = found[-longest:]
        else:
            del holder[where[-1]]
    except (LookupError, TypeError):
        body.pop(str(where[0]), None)
