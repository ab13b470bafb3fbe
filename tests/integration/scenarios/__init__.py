"""Each situation of a rollout on a real API server: `make scenarios`. Their list is tests/cases/situations.yaml."""
