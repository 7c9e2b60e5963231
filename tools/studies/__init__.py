"""Studies of the benchmark's own judgements on images whose truth is known."""
