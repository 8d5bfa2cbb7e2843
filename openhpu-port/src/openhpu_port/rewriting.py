"""A script with the names of another device. LibCST keeps comments and layout."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import libcst as cst
from libcst import metadata
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor

from openhpu_port import calls
from openhpu_port.errors import PortError
from openhpu_port.table import Entry, Table

_GONE = cst.Expr(cst.Name("gone"))  # in a line until its block is left
_READS = ("os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault")
_BY_TEXT = ("getattr", "hasattr", "setattr", "delattr")
_IMPORTS = ("__import__", "importlib.import_module")


class Problem(NamedTuple):
    """What was not translated. `line` counts from 1."""

    line: int
    what: str
    reason: str


class Ported(NamedTuple):
    """The new text, and what has to be changed by hand."""

    text: bytes
    encoding: str
    problems: list[Problem]


def port(source: bytes, table: Table) -> Ported:
    """Translate a script. Raises PortError if it is not Python, or not in the encoding that it states or UTF-8."""
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise PortError(f"line {error.raw_line} is not Python {error.message.partition(chr(10))[0]}") from error
    except (SyntaxError, LookupError, ValueError, RecursionError) as error:
        raise PortError(f"it cannot be read: {error}; expected UTF-8, or a line # coding: NAME") from error
    wrapper = metadata.MetadataWrapper(module)
    instances = _Instances(table)
    wrapper.visit(instances)
    names = _Names(table, instances.found)
    module = wrapper.visit(names)
    for name in sorted(names.needed):
        context = CodemodContext()
        AddImportsVisitor.add_needed_import(context, name)
        module = AddImportsVisitor(context).transform_module(module)
    wrapper = metadata.MetadataWrapper(module)
    module = wrapper.visit(_Imports(table))
    return Ported(module.bytes, module.encoding, sorted(set(names.problems)))


class _Resolving(cst.CSTTransformer):
    """What names mean, by the imports of the script."""

    METADATA_DEPENDENCIES: ClassVar[Sequence[Any]] = (
        metadata.QualifiedNameProvider,
        metadata.PositionProvider,
        metadata.ParentNodeProvider,
    )

    def __init__(self, table: Table, instances: dict[str, str] | None = None) -> None:
        super().__init__()
        self.table = table
        self.instances = instances or {}

    def leave_SimpleStatementLine(self, node: cst.SimpleStatementLine, updated: cst.SimpleStatementLine) -> Any:
        return updated if updated.body else updated.with_changes(body=[_GONE])

    def leave_IndentedBlock(self, original_node: Any, updated_node: Any) -> Any:
        return _without_empty(updated_node)

    leave_Module = leave_IndentedBlock

    def name_of(self, node: cst.CSTNode) -> str:
        """The canonical name; "" for what is none."""
        if not isinstance(node, cst.Name | cst.Attribute):
            return ""
        if isinstance(node, cst.Attribute) and node.attr.value in self.table.methods:
            made = self.name_of(node.value.func) if isinstance(node.value, cst.Call) else ""
            kind = made or self.instances.get(calls.code(node.value))
            if f"{kind}().{node.attr.value}" in self.table.names:
                return f"{kind}().{node.attr.value}"
        if isinstance(node, cst.Attribute) and not isinstance(_owners(node)[-1], cst.Name):
            return ""  # of what a call returned
        found = self.get_metadata(metadata.QualifiedNameProvider, node, set())
        for one in found:
            if one.source is not metadata.QualifiedNameSource.LOCAL:
                return self.table.canonical(one.name)
        return ""


class _Instances(_Resolving):
    """Variables that hold an object with methods of the table: the code of a target, and its class."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.found: dict[str, str] = {}
        self.classes = {name.partition("()")[0] for name in table.names if "()" in name}

    def _take(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        if isinstance(value, cst.Call) and (name := self.name_of(value.func)) in self.classes:
            self.found[calls.code(target)] = name

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._take(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._take(node.target, node.value)


class _Names(_Resolving):
    """Names, calls, strings and environment variables."""

    def __init__(self, table: Table, instances: dict[str, str]) -> None:
        super().__init__(table, instances)
        self.problems: list[Problem] = []
        self.needed: set[str] = set()  # modules to import
        self._callees: set[cst.CSTNode] = set()
        self._kept: set[cst.CSTNode] = set()  # strings
        self._gone: set[cst.CSTNode] = set()  # statements

    def _list(self, node: cst.CSTNode, what: str, reason: str) -> None:
        self.problems.append(Problem(self.get_metadata(metadata.PositionProvider, node).start.line, what, reason))

    def _need(self, text: str) -> None:
        self.needed.update(re.findall(r"\b(torch|contextlib|functools|os|transformers|accelerate)\.", text))

    def _expression(self, name: str) -> cst.BaseExpression:
        """A dotted name of another module, which is imported where the script does not do it."""
        self._need(name)
        return cst.parse_expression(name)

    # Names.

    def visit_Import(self, node: Any) -> bool:
        return False

    visit_ImportFrom = visit_Import

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        """Whether parts of the name are looked at, too."""
        name = self.name_of(node)
        entry = self.table.find(name) if name and "()" not in name else None
        if entry is None:
            return True
        if node in self._callees or (name in self.table.names and entry.to != "!"):
            return False
        inner = {self.name_of(one) for one in _owners(node)} - set(self.table.roots)
        if name not in self.table.names and inner & self.table.names.keys():
            return True
        if entry.to == "!":
            self._list(node, name, entry.reason)
        return False

    def leave_Name(self, node: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        parent = self.get_metadata(metadata.ParentNodeProvider, node)
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return updated
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return updated
        return self.leave_Attribute(node, updated)

    def leave_Attribute(self, node: Any, updated: Any) -> Any:
        if node in self._callees:
            return updated
        name = self.name_of(node)
        entry = self.table.names.get(name)
        if entry is None and isinstance(node, cst.Name) and self.table.is_own(name):
            parent = self.get_metadata(metadata.ParentNodeProvider, node)
            entry = None if isinstance(parent, cst.Attribute) else self.table.find(name)
        if entry is None:
            attribute = node.attr.value if isinstance(node, cst.Attribute) and not self.table.is_own(name) else ""
            if attribute in self.table.attributes and attribute.startswith("is_"):
                return updated.with_changes(attr=cst.Name(self.table.attributes[attribute]))
            return updated
        if entry.to == "!":  # listed before, if it is no single word
            if isinstance(node, cst.Name):
                self._list(node, name, entry.reason)
            return updated
        if entry.to[0] in "=@" or entry.arguments:
            self._list(node, name, "it is used without a call")
            return updated
        return self._expression(entry.to)

    # Calls.

    def _entry_of_call(self, node: cst.Call) -> tuple[str, Entry | None]:
        name = self.name_of(node.func)
        for condition in self.table.strings:
            if calls.holds(node.args, condition) and (entry := self.table.names.get(f"{name}?{condition}")):
                return name, entry
        return name, self.table.find(name) if name else None

    def visit_Call(self, node: cst.Call) -> None:
        name, entry = self._entry_of_call(node)
        if entry is not None:
            self._callees.add(node.func)
        if name in _BY_TEXT or name.removeprefix("builtins.") in (*_BY_TEXT, *_IMPORTS):
            self._built_name(node, name.removeprefix("builtins."))

    def _built_name(self, node: cst.Call, name: str) -> None:
        at = 0 if name in _IMPORTS else 1
        if len(node.args) <= at or isinstance(node.args[at].value, cst.SimpleString):
            return
        owner = "" if at == 0 else self.name_of(node.args[0].value)
        if at == 0 or owner == "torch" or owner.startswith("torch.") or self.table.is_own(owner):
            self._list(node, calls.code(node.args[at].value), "the name is built at run time")
            self._kept.add(node.args[at].value)

    def leave_Call(self, node: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        name, entry = self._entry_of_call(node)
        if name in _READS:
            return self._variable(node, updated, name)
        if entry is None:
            return self._method(node, updated)
        try:
            if entry.to == "!":
                raise calls.Untranslatable(entry.reason)
            new = self._call(name, entry, node, updated)
        except calls.Untranslatable as reason:
            self._list(node, name, "; ".join(filter(None, dict.fromkeys((str(reason), entry.reason)))))
            return updated.with_changes(func=node.func)
        return new

    def _call(self, name: str, entry: Entry, node: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        parent = self.get_metadata(metadata.ParentNodeProvider, node)
        if isinstance(parent, cst.Expr) and entry.arguments.startswith("^") and entry.to[0] != "=":
            raise calls.Untranslatable(entry.reason)
        args = calls.rewrite(updated.args, entry.arguments)
        self._need(f"{entry.to} {entry.arguments}")
        if entry.to[0] == "@" and isinstance(updated.func, cst.Attribute):
            owner = updated.func.value
            func = cst.Attribute(owner, cst.Name(entry.to[1:])) if entry.to[1:] else owner
            return updated.with_changes(func=func, args=args)
        if entry.to[0] != "=":
            return updated.with_changes(func=self._expression(entry.to), args=args)
        made = calls.expression(entry.to[1:], updated.args)
        if isinstance(parent, cst.Expr) and (entry.to == "=$1" or made.deep_equals(cst.Name("None"))):
            self._gone.add(parent)
        return made

    def _method(self, node: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`x.hpu()`, of a tensor or a module."""
        func = updated.func
        if isinstance(func, cst.Attribute) and self.table.methods.get(func.attr.value) == "@":
            self._list(node, f".{func.attr.value}", "the class of its object is not known from this file")
        if not isinstance(func, cst.Attribute) or func.attr.value not in self.table.attributes:
            return updated
        args = () if self.table.target == "cpu" else updated.args
        return updated.with_changes(
            func=func.with_changes(attr=cst.Name(self.table.attributes[func.attr.value])), args=args
        )

    # Environment variables.

    def _variable(self, node: cst.Call, updated: cst.Call, function: str) -> cst.BaseExpression:
        old = calls.literal(node.args[0].value) if node.args else None
        new = None if old is None else self.table.variable(old)
        if new is None:
            return updated
        if new:
            first = updated.args[0].with_changes(value=cst.SimpleString(f'"{new}"'))
            return updated.with_changes(args=[first, *updated.args[1:]])
        parent = self.get_metadata(metadata.ParentNodeProvider, node)
        if isinstance(parent, cst.Expr):
            self._gone.add(parent)
            return updated
        return updated.args[1].value if len(updated.args) > 1 else cst.Name("None")

    def visit_Subscript(self, node: cst.Subscript) -> None:
        if self.name_of(node.value) != "os.environ" or not isinstance(node.slice[0].slice, cst.Index):
            return
        old = calls.literal(node.slice[0].slice.value)
        if old is None or self.table.variable(old) != "":
            return
        parent = self.get_metadata(metadata.ParentNodeProvider, node)
        statement = self.get_metadata(metadata.ParentNodeProvider, parent)
        alone = isinstance(statement, cst.Assign) and len(statement.targets) == 1
        if isinstance(parent, cst.Del):
            self._gone.add(parent)
        elif isinstance(parent, cst.AssignTarget) and alone:
            self._gone.add(statement)
        else:
            self._list(node, old, "this variable is not read on other devices")

    # Strings.

    def leave_SimpleString(self, node: cst.SimpleString, updated: cst.SimpleString) -> cst.BaseExpression:
        text = calls.literal(node)
        parent = self.get_metadata(metadata.ParentNodeProvider, node)
        if text is None or isinstance(parent, cst.Expr | cst.ConcatenatedString):
            return updated
        new = self.table.string(text) or self.table.variable(text)
        if new:
            return cst.SimpleString(f"{node.prefix}{node.quote}{new}{node.quote}")
        if self.table.names_device(text):
            self._list(node, calls.code(node), "the text names the device, and is no name of the table")
        return updated

    def leave_FormattedString(self, node: cst.FormattedString, updated: cst.FormattedString) -> cst.BaseExpression:
        first = node.parts[0] if node.parts else None
        if not isinstance(first, cst.FormattedStringText) or not first.value.startswith(self.table.device + ":"):
            return updated
        new = self.table.strings[self.table.device]
        if self.table.target == "cpu":
            return cst.SimpleString(f'"{new}"')
        text = new + first.value[len(self.table.device) :]
        return updated.with_changes(parts=[first.with_changes(value=text), *updated.parts[1:]])

    def visit_BinaryOperation(self, node: Any) -> bool:
        text = calls.literal(node)
        if node in self._kept:
            return False
        if text is not None and self.table.string(text):
            self._list(node, calls.code(node), "the name is built at run time")
            return False
        return True

    visit_ConcatenatedString = visit_BinaryOperation

    # Statements.

    def leave_Expr(self, original_node: Any, updated_node: Any) -> Any:
        return cst.RemoveFromParent() if original_node in self._gone else updated_node

    leave_Del = leave_Expr

    def leave_Assign(self, node: cst.Assign, updated: cst.Assign) -> Any:
        new = len(node.targets) == 1 and node.value is not updated.value and not node.value.deep_equals(updated.value)
        itself = new and updated.targets[0].target.deep_equals(updated.value)  # x = wrap(x)
        return cst.RemoveFromParent() if node in self._gone or itself else updated


class _Imports(_Resolving):
    """Imports of the packages that go, unless a name is left that needs one."""

    METADATA_DEPENDENCIES = (metadata.QualifiedNameProvider, metadata.ScopeProvider)

    def _is_needed(self, node: cst.CSTNode, alias: cst.ImportAlias) -> bool:
        scope = self.get_metadata(metadata.ScopeProvider, node)
        name = alias.asname.name.value if alias.asname else alias.evaluated_name  # type: ignore[union-attr]
        if scope is None:
            return True
        found = list(scope[name]) or list(scope[name.partition(".")[0]])
        return any(one.references for one in found if getattr(one, "node", None) is node)

    def _left(self, node: cst.Import | cst.ImportFrom, updated: Any, package: str) -> Any:
        if isinstance(node.names, cst.ImportStar):
            return cst.RemoveFromParent() if self.table.is_own(package) else updated
        left = []
        for alias, new in zip(node.names, updated.names, strict=True):
            full = f"{package}.{alias.evaluated_name}".lstrip(".")
            if not self.table.is_own(full) or self._is_needed(node, alias):
                left.append(new)
        if not left:
            return cst.RemoveFromParent()
        if len(left) < len(node.names):
            left[-1] = left[-1].with_changes(comma=updated.names[-1].comma)
        return updated.with_changes(names=left)

    def leave_Import(self, node: cst.Import, updated: cst.Import) -> Any:
        return self._left(node, updated, "")

    def leave_ImportFrom(self, node: cst.ImportFrom, updated: cst.ImportFrom) -> Any:
        if node.relative or node.module is None:
            return updated
        return self._left(node, updated, calls.code(node.module))


def _owners(node: cst.Attribute) -> list[cst.BaseExpression]:
    """What the attribute is of, and what that is of, up to the first that is no attribute."""
    found: list[cst.BaseExpression] = [node.value]
    while isinstance(found[-1], cst.Attribute):
        found.append(found[-1].value)
    return found


def _without_empty(block: Any) -> Any:
    """The block without lines whose statements went. Their comments stay, and so does a blank line above them."""
    body: list[Any] = []
    waiting: list[cst.EmptyLine] = []
    for line in block.body:
        if isinstance(line, cst.SimpleStatementLine) and line.body[0] is _GONE:
            waiting = _joined(waiting, line.leading_lines)
        else:
            body.append(line.with_changes(leading_lines=_joined(waiting, line.leading_lines)) if waiting else line)
            waiting = []
    comments = [one for one in waiting if one.comment]
    return block.with_changes(body=body, footer=[*comments, *block.footer]) if len(body) < len(block.body) else block


def _joined(first: Sequence[cst.EmptyLine], then: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    if any(line.comment for line in first):
        return [*first, *then]
    return list(then if len(then) >= len(first) else first)
