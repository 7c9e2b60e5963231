"""The threads of a play job: one per chain, without the database."""
