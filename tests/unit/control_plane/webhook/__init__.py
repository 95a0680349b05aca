"""Tests of injection."""
