"""The controller: custom resources are mirrored into the control plane, and its verdicts back to them.

Level-triggered: what is wanted goes over as a whole (`desired`), and what holds comes back as a whole
(`verdicts`), whenever either changed and at least every half minute. Pure: `resources`, `desired`,
`verdicts`, `status`, `record`. With a clock and a network: `collection`, `secrets`, `mirror`, `mirroring`,
`reporter`, `election`. It writes `*/status` and its Lease, nothing else.
"""
