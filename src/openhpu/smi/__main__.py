import sys

from openhpu.smi.cli import main

sys.exit(main())
