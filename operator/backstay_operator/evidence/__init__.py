"""Where counters come from: Prometheus, or the pods themselves. Problems become words, never numbers."""
