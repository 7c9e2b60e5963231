"""Error studies: how often "change seen" and the witnesses err where the truth is known."""
