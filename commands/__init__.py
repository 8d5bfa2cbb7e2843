"""How this project's commands (tests, benchmarks, faults, lanes) run child processes, keep a budget and keep results.

It needs the standard library only, and is not installed with openhpu.
"""
