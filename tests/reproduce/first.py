"""The first article: the whole way of a call, from a provider 250 ms away."""

from __future__ import annotations

from tests.reproduce import chats, loaded, pools
from tests.reproduce.trials import Article

ARTICLE = Article(
    "First article: from loading the model to the call",
    "A provider abroad, 250 ms away. It merges questions into one chat, compares protocols, bounds the"
    " temperature and ends with a load test.",
    (chats.TRIAL, loaded.TRIAL, pools.PROTOCOLS, pools.TEMPERATURE),
)
