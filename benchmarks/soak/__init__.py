"""Memory over many requests: whatever clients do, a serving process must not grow."""
