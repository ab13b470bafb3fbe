"""The commands: each reads its options, calls one noun's functions and prints the result."""
