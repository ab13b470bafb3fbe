"""The engine beside other servers: tokens a second, and times that clients see."""

import os

# Read by OpenMP when torch is imported: waits as the runtime's server does, which sets the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
