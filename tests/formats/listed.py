"""Long lists of short texts, written in a way that a person can look over."""

import re

from hypothesis import strategies as st


def listed(texts: str) -> st.SearchStrategy[str]:
    """One of the texts that stand here with ¦ between them."""
    return st.sampled_from(re.split(r"\s*¦\s*", texts.strip()))
