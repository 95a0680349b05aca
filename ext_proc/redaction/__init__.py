"""Personal data and secrets: found in a text, masked in a request, put back into its answer (pure).

An *entity* is what was found (`contract.entities`). A *placeholder* such as `[PHONE_1]` stands for one value
of one request; its *masks* are all of them. The same value has the same placeholder wherever it stands, and
placeholders are numbered in order of appearance, so an answer to the masked request is right for everybody
who asks the same masked question: each gets it with the values of their own masks.

`detectors` finds in any text, `items` in texts that are JSON, too; `requests` masks by the names of `masks`;
`answers` and `streams` restore what comes back.
"""
