"""The classes of arguments: one for each function of operators.tsv, with its name in CamelCase.

Their attributes are in operators.pyi, which `make docs` writes from the schemas. Here a class is made when it is first
asked for, so that an import does not read the table.
"""

from openhpu.interface.gaudi_ops.arguments import Arguments


def __getattr__(name: str) -> type[Arguments]:
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = type(name, (Arguments,), {"__module__": __name__})
    globals()[name] = made
    return made
