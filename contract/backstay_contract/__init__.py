"""The words that Backstay's parts share: the manifest, the custom resource and every name.

This package imports pydantic only; the operator, the runtime and the command line import it, and never each other.
"""
