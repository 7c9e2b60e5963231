"""People's votes: questions, ballots, rows and counting."""
