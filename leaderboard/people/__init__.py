"""What people are asked, what they say, and what comes of it."""
