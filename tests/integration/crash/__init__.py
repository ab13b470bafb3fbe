"""The crash sweep: the operator is killed at each of its API writes, and the end must be the undisturbed one.

The operator knows nothing of it: a proxy between it and the API server counts its writes and kills the process.
"""
