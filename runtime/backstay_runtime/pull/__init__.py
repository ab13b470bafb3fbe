"""The init container: brings a model's verified bytes into the pod's models folder, or says why it cannot.

errors, settings, endpoint, extents and retry are pure; transport and storage speak HTTP; partial, verify and
install own the disk; download joins them; pull is the sequence; main is the process.
"""
