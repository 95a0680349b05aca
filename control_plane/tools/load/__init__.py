"""The load generator: many calls at a pace, what became of each, and a report that can be compared.

It knows OpenAI's API and no part of the mesh: a sidecar and a provider are the same to it, so that what the
mesh gains shows side by side. A tool for users (`outrigger bench`); `tune` sends its calls through it too.

Words used here:

- *call*: one request to be sent (`calls`); a *mix* is the endless sequence of them (`mix`).
- *outcome*: what became of a call, with its moments (`wire`); its *verdict* says whether the answer is good
  (`verdicts`).
- *closed loop*: a fixed number of callers, each sends its next call when it has its answer. A slow server
  slows the load down.
- *open loop*: calls start at given moments (`arrivals`), whatever the server does.
- *intended start*: the moment a call should have started. Latency in open loop counts from it, so that calls
  held up by a stall are not forgotten (coordinated omission, https://www.youtube.com/watch?v=lJ8ydIuPFeU).
- *plan*: what is to be done, within which bounds (`plan`); *tally*: what has been counted so far (`tally`).
"""
