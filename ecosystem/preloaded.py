"""A plugin of pytest: a process that a test starts by the fork server has PyTorch and DeepSpeed already.

Each of them would import both otherwise, which takes longer than most tests.
"""

import multiprocessing

multiprocessing.set_forkserver_preload(["torch", "deepspeed"])
