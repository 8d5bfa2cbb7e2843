"""`openhpu replay`: the calls of a recording again, on this device. The only part that needs OpenHPU."""
