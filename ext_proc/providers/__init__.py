"""What providers say of themselves, and what follows from it: when to leave one alone, how fast to ask.

A *hint* is what an answer's headers say of when to come back. A Backend *cools* while nobody is to ask it.
*Pacing* spreads what is left of a quota over the time that it has to last. All is arithmetic over times that
are passed in; who waits, and what is shared, is decided by `stages.hold` and `stores`.
"""
