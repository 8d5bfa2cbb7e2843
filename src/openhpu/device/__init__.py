"""The devices of a process: opening them, streams and events, memory, random numbers, the mode, steps."""
