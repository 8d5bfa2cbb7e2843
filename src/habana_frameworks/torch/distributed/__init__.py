"""Gaudi's distributed package."""
