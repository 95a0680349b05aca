"""Three articles' tables, measured again: `make reproduce` (not collected by pytest).

Each article reports what making calls in another way gained, on its author's machine and network. Absolute
figures do not carry over, ratios do: every row is divided by its own table's naive row, theirs and ours, in
one run on one machine. A *trial* is one table; its *direct* rows are clients written as the articles write
them, its *through* rows go through the sidecar. The provider is the simulated one, as far away and as slow as
the article says; the number of callers follows from the article's own figures (callers = throughput ×
latency, Little's law).
"""
