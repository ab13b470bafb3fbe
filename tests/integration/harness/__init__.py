"""What rollouts are tested with on a real API server: a played node, the operator as a process, one story."""
