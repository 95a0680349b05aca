"""Programs for people: the simulated provider."""
