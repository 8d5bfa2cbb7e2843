"""Calls that need no script: operators, dtypes and values where devices differ."""
