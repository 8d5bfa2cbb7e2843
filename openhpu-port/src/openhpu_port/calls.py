"""The arguments of a call, in the way that an entry of the table describes."""

import re
from collections.abc import Sequence
from typing import Any

import libcst as cst

_RENAMED = re.compile(r"(\w+)<(\w+)(\.[\w.]+)?")


class Untranslatable(Exception):
    """A call stays as it is. The text is the reason."""


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module(body=()).code_for_node(node)


def rewrite(args: Sequence[cst.Arg], described: str) -> list[cst.Arg]:
    """The new arguments; see `table.Entry.arguments`. Raises Untranslatable."""
    if not described:
        return list(args)
    if described == "!":
        if args:
            raise Untranslatable("it is called with arguments")
        return []
    if any(arg.star for arg in args):
        raise Untranslatable("arguments come by * or **")
    tokens = described.removeprefix("^").split()
    new = _New(_by_name(args, tokens))
    for token in tokens:
        if token == "...":
            new.add_keywords(args)
        else:
            new.add_token(token)
    if "..." in tokens:
        new.args.sort(key=lambda arg: next((at for at, one in enumerate(args) if one.value is arg.value), len(args)))
    return _with_commas(new.args, args)


class _New:
    """The new arguments, token by token."""

    def __init__(self, given: dict[str, cst.Arg]) -> None:
        self.given = given  # the old arguments, by their old names
        self.args: list[cst.Arg] = []
        self.by_name = False  # whether those that follow need their names

    def add_token(self, token: str) -> None:
        """A token of `table.Entry.arguments`. Raises Untranslatable."""
        renamed = _RENAMED.fullmatch(token)
        name, _, value = token.lstrip("-~+").partition("=")
        if token == "*":
            self.by_name = True
        elif token[0] == "+":
            added = cst.Arg(cst.parse_expression(value or name))
            self.args.append(_keyword(added, name) if value else added)
        elif renamed and renamed[3]:
            self._add_part(renamed)
        elif token[0] == "~":
            if name in self.given and code(self.given[name].value) != value:
                raise Untranslatable(f"{name} is given")
        elif token[0] != "-":
            new_name, old_name = (renamed[1], renamed[2]) if renamed else (name, name)
            self._add_given(new_name, old_name, default=value)

    def add_keywords(self, args: Sequence[cst.Arg]) -> None:
        """Keywords that no token names."""
        for arg in args:
            if arg.keyword and arg.keyword.value not in self.given:
                self._add(arg.keyword.value, arg)

    def _add_part(self, renamed: re.Match[str]) -> None:
        name, owner_name, part = renamed.groups()
        if owner_name in self.given:
            owner = self.given[owner_name].value
            text = code(owner) if isinstance(owner, cst.Name | cst.Attribute) else f"({code(owner)})"
            self._add(name, cst.Arg(cst.parse_expression(text + part)))

    def _add_given(self, name: str, old: str, default: str) -> None:
        if old in self.given:
            self._add(name, self.given[old])
            return
        self.by_name = True
        if default:
            self.args.append(_keyword(cst.Arg(cst.parse_expression(default)), name))

    def _add(self, name: str, arg: cst.Arg) -> None:
        self.by_name = self.by_name or arg.keyword is not None
        self.args.append(_keyword(arg, name) if self.by_name else arg)


def _by_name(args: Sequence[cst.Arg], tokens: list[str]) -> dict[str, cst.Arg]:
    """The arguments by the old names, in whose order the tokens are."""
    order = []
    for token in tokens:
        renamed = _RENAMED.fullmatch(token)
        if not (token in ("*", "...") or token[0] == "+" or (renamed and renamed[3])):
            order.append(renamed[2] if renamed else token.lstrip("-~").partition("=")[0])
    given = {}
    for at, arg in enumerate(args):
        name = _name(arg, at, order)
        if name in order:
            given[name] = arg
        elif not arg.keyword or "..." not in tokens:
            raise Untranslatable(f"{name} is not known")
    return given


def _name(arg: cst.Arg, at: int, order: list[str]) -> str:
    if arg.keyword:
        return arg.keyword.value
    return order[at] if at < len(order) else f"argument {at + 1}"


def _keyword(arg: cst.Arg, name: str) -> cst.Arg:
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return arg.with_changes(keyword=cst.Name(name), equal=arg.equal if arg.keyword else tight)


def _with_commas(new: list[cst.Arg], old: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Arguments apart from each other as the old ones were: on lines of their own, or on one. Each has its comment."""
    default = cst.MaybeSentinel.DEFAULT
    between = old[0].comma if len(old) > 1 else default
    last = old[-1].comma if old else default
    result = []
    for at, arg in enumerate(new):
        comma = arg.comma
        if at == len(new) - 1:
            comma = last if comma is last else _comma(last, default)
        elif comma in (last, default):
            comma = _comma(between, comma)
        result.append(arg.with_changes(comma=comma))
    return result


def _comma(like: Any, comment_of: Any) -> Any:
    """A comma with the space of one and the comment of another."""
    spaces = [getattr(comma, "whitespace_after", None) for comma in (like, comment_of)]
    if not isinstance(spaces[0], cst.ParenthesizedWhitespace):
        return like
    line = spaces[1].first_line if isinstance(spaces[1], cst.ParenthesizedWhitespace) else cst.TrailingWhitespace()
    return like.with_deep_changes(spaces[0], first_line=line)


def literal(node: cst.CSTNode) -> str | None:
    """The value of a string without parts, or of literals that are joined; None for other expressions."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    if isinstance(node, cst.ConcatenatedString | cst.BinaryOperation):
        if isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.Add):
            return None
        left, right = literal(node.left), literal(node.right)
        return None if left is None or right is None else left + right
    return None


def holds(args: Sequence[cst.Arg], text: str) -> bool:
    """Whether an argument is this string, or a device of this kind."""
    return any((literal(arg.value) or "").partition(":")[0] == text for arg in args)


def expression(template: str, args: Sequence[cst.Arg]) -> cst.BaseExpression:
    """The expression of an entry, with the first argument for $1. Raises Untranslatable."""
    if "$1" not in template:
        return cst.parse_expression(template)
    if not args or args[0].star:
        raise Untranslatable("it has no first argument")
    first = args[0].value
    if template == "$1":
        return first
    return cst.parse_expression(template.replace("$1", code(first)))
