"""Pages for what visitors bring."""
