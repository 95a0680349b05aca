"""Several requests in one call, and their answers out of one (pure).

A *codec* knows how a kind of request takes several inputs: `native` (lists that the API itself has), `array`
(a list of conversations, of servers that take one), `packed` (questions in one conversation, answered by id).
It takes a request apart into its *inputs* and the rest, which must be equal for requests to travel together;
puts inputs of several requests into one; and deals the answer out again, input by input.

Whatever does not match by number and index is nobody's answer: the codec says so, and each goes alone.
"""
