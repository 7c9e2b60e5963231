"""Pages on which people are asked, and what came of it."""
