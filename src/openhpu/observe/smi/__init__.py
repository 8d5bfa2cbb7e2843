"""`hl-smi`: what the devices of all processes on this machine are doing.

Each process shows its open devices in small files (`state`, written by `publisher`); the command reads them (`modules`)
and prints them as table, list or CSV. Only the publisher needs torch.
"""
