"""The process of the fixture `compile_process` (commands/answering.py)."""

import pickle
from pathlib import Path

from commands.answering import serve
from openhpu.compiler import CannotCompile
from openhpu.compiler.recipe import compile_recipe


class Answers:
    def compile(self, exchange, folder):
        results = []
        for description in pickle.loads(Path(exchange).read_bytes()):
            try:
                results.append(compile_recipe(description, folder, keep_sources=True))
            except CannotCompile as error:
                results.append(error)
        Path(exchange).write_bytes(pickle.dumps(results))
        return exchange


if __name__ == "__main__":
    serve(Answers)
