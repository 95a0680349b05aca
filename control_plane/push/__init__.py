"""The push stream's server: one gRPC stream a subscriber (ext_proc/contract/push.proto).

`subscribers` holds who follows and what each answered; `server` moves it over gRPC.
"""
