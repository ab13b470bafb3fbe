"""The engine beside other servers: tokens a second, and times that clients see."""
