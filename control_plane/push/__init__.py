"""The push stream's server: one gRPC stream a subscriber (ext_proc/contract/push.proto).

`fleet` decides who is sent what, by `rollout` (one revision on its way), `editions` (those that count),
`parcels` (what is sent) and `sidecars` (who follows, and what each answered). `server` moves it
over gRPC, where `admission` says who may join, `listening` where, and `reports` reads what comes up.
`questions` asks sidecars what their caches keep.
"""
