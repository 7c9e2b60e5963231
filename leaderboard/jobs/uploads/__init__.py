"""What visitors bring: chains to be scored, and runs to be recomputed."""
