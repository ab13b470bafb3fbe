"""A recorded time judged again: recordings and Prometheus in, verdicts over time out."""
