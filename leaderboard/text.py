"""Text that strangers type: cleaned, and told apart by what it looks like."""

from __future__ import annotations

import re
import unicodedata

#: Cyrillic and Greek letters that pass for Latin ones.
LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһӏАВЕКМНОРСТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν", "aeopcyxijsdhlABEKMHOPCTXABEZHIKMNOPTYXoav"
)


def plain_text(text: str) -> str:
    """The text without control and bidirectional characters, spaces folded."""
    kept = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    return " ".join(kept.split())


def skeleton(name: str) -> str:
    """What a name looks like: compatible letters, no accents, no punctuation, no case."""
    folded = unicodedata.normalize("NFKD", name).translate(LOOKALIKES)
    return re.sub(r"[^a-z0-9]", "", folded.casefold())
