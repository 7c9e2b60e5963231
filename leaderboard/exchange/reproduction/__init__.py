"""The papers' tables beside ours: what they published, what plays here, and the difference."""
