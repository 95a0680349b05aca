"""Provider keys at rest: encryption of stored secrets, and where the key for it comes from."""
