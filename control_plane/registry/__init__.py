"""The registry: what a change of policy is, and the one writer of it.

Words: a *revision* is one accepted change, numbered from 1; the *head* is the newest revision, as the API
shows and edits it; *in force* is the newest revision that no sidecar refused, which is what sidecars get; a
revision that one refused is *halted*. The *owner* of a document or secret, if it has one, keeps it elsewhere
and alone changes it here: a *mirror* follows all that an owner wants to exist. Documents, Consumer keys,
stored secrets and API tokens are kept by a `Store` (a Protocol of this package) and read from memory, so that
reads go on while the database is gone.

Keys, secrets and purges have no history: whatever revision of the documents is in force, the newest of these
are, so that a revoked key stays revoked after a halt or a rollback, and a purged answer purged.

Nothing here knows HTTP, sidecars, SQL or a cipher.
"""
