"""`hl-smi`: the state of the devices of all processes on this machine.

Each process writes its open devices into small files (`state`, written by `publisher`). The command reads them
(`modules`) and prints them as table, list or CSV. Only the publisher needs torch.
"""
