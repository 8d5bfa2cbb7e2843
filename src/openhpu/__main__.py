import sys

from openhpu.cli import main

sys.exit(main())
