"""The judge: counts in, verdict out. Pure: time is an argument, nothing is read or written."""
