"""Studies of the benchmark's error rates, on images with a known truth."""
