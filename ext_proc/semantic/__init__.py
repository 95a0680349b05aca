"""Which stored answer also answers a question that was put in other words.

A *question* is the last user text of a single-turn request, its *partition* everything else that the answer
depends on. A *candidate* is the nearest entry of the partition whose question no *veto* tells apart from it.
It is served where the evidence says so (`evidence`); elsewhere it is *explored*: the provider answers, a
*judge* compares, and the outcome is evidence. What it costs and promises: docs/policies/semantic-cache.md.

No module but those that work with vectors (`index`, `local`, `embeddings`) imports numpy, and nothing imports
these before a Policy asks for similar answers.
"""
