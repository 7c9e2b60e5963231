"""What people are asked, who they are to us, and what they said."""
