"""How quickly a rollout goes back, and what its clients lose: `make bench-rollout`."""
