"""What the rows of the transition table do, by the part of a rollout that they belong to."""
