"""How much of a stranger's bundle is read."""

from __future__ import annotations

from leaderboard.models.pictures import MAX_WEB_PIXELS

#: The list of its entries and its JSON, in bytes; the pixels of each of its pictures.
LIMITS = {
    "max_directory": 4 * 2**20,
    "max_document": 24 * 2**20,
    "max_pixels": MAX_WEB_PIXELS,
}
