"""Further views of the results."""
