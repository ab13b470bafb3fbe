"""Children as they shall be, pure: plain JSON objects, rendered from the spec and a decision."""
