"""What stands in the status or on the Service may be another version's, or edited: it is read with that in mind.

A pass that stopped at a word it does not know would leave the resource without an operator.
"""

from backstay_contract.reasons import Reason


def reason(text: str, otherwise: Reason) -> Reason:
    """The reason of that name, or the other one where this version knows no such word."""
    return Reason(text) if text in set(Reason) else otherwise
