"""People's votes: choice of questions, voting sessions, published rows, and counting."""
