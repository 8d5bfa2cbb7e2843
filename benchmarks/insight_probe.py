"""The GPT example, which writes what it measured: `python -m benchmarks.insight_probe FILE [ARGUMENT ...]`."""

import json
import sys
from pathlib import Path

from examples import gpt_chars

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(gpt_chars.main(sys.argv[2:])))
