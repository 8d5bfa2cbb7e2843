import sys

from openhpu.observe.smi.cli import main

sys.exit(main())
