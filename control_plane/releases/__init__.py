"""Grey releases: what is known of the two versions, whether that is enough to decide, and what follows.

*New* and *old* are the versions `to` and `from` of a Release. An *interval* is what both did in the same
short time at the same sidecars. *Evidence* grows when the new version does worse than the old one. A
*reading* is what one gate has to say. A *standing* is how far a Release is. All but the runner is pure.
"""
