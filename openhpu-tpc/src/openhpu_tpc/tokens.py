"""Tokens of C after the preprocessor, in groups by brackets."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+)|(?P<line>\n)|(?P<directive>\#[^\n]*)
    |(?P<string>[A-Za-z]*"(?:\\.|[^"\\\n])*"|[A-Za-z]*'(?:\\.|[^'\\\n])*')
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[0-9a-zA-Z_.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE,
)
OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Token:
    """A piece of the source. `kind` is space, line, directive, string, number, word or sign."""

    kind: str
    text: str


@dataclass
class Group:
    """What is between two brackets, with them."""

    opening: str
    parts: list["Token | Group"] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """As of a token."""
        return "group"

    @property
    def text(self) -> str:
        """The source."""
        return self.opening + text_of(self.parts) + OPENING[self.opening]


Part = Token | Group


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a source that the preprocessor has read."""
    for match in _TOKEN.finditer(source):
        yield Token(match.lastgroup or "sign", match.group())


def grouped(source: str) -> list[Part]:
    """Tokens and groups. Brackets that do not match are left to the compiler."""
    stack: list[list[Part]] = [[]]
    open_groups: list[Group] = []
    for token in tokens(source):
        if token.kind == "sign" and token.text in OPENING:
            group = Group(token.text)
            stack[-1].append(group)
            open_groups.append(group)
            stack.append(group.parts)
        elif token.kind == "sign" and open_groups and token.text == OPENING[open_groups[-1].opening]:
            open_groups.pop()
            stack.pop()
        else:
            stack[-1].append(token)
    return stack[0] if not open_groups else list(tokens(source))


def text_of(parts: list[Part]) -> str:
    """The source of some parts."""
    return "".join(part.text for part in parts)


def is_blank(part: Part) -> bool:
    """Whether a part is only space between others."""
    return part.kind in ("space", "line", "directive")
