"""How much a caller may use: requests, tokens and calls at the same time.

An *account* is one thing whose use is counted: a Consumer in its Tier, a Tier's callers without a Consumer, a
Consumer, a Model. A call *claims* from all its accounts at once and is admitted by all or by none. What was
admitted is a *reservation*, which is settled with what was used, or given back: once, however the call ends.

Pure, but for the clock that is passed in: what processors share is in `ext_proc.stores.shared_limits`.
"""
