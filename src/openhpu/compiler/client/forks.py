"""Forks of the script's process, such as those of a DataLoader's workers."""

import os
import threading

# Held while a process is started. A process forked meanwhile would keep the other ends of its pipes and sockets open.
# Who waits for their end, as subprocess.Popen does, would wait for as long as the forked process lives.
no_fork = threading.RLock()
os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=no_fork.release)
