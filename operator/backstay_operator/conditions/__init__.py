"""Conditions of a resource, pure: what a pass wants to say, and since when it is so."""

from backstay_operator.conditions.build import Truth, Wanted, build

__all__ = ["Truth", "Wanted", "build"]
