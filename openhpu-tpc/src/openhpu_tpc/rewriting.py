"""From TPC-C to C++: what C++ has not is written in another way; lines keep their numbers.

`?:` becomes a function, which also takes vectors of predicates. Initialisers with designators become functions that
set what they name. Names that are keywords of C++ get a `_`. `main` is renamed. Variables of `__local__` memory are of
their thread. Pragmas of the vendor's compiler go, and unknown ones are reported.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from openhpu_tpc import local_memory
from openhpu_tpc.tokens import Group, Part, Token, grouped, is_blank, text_of

KEYWORDS = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "bitand",
        "bitor",
        "catch",
        "class",
        "compl",
        "concept",
        "consteval",
        "constinit",
        "const_cast",
        "co_await",
        "co_return",
        "co_yield",
        "decltype",
        "delete",
        "dynamic_cast",
        "explicit",
        "export",
        "friend",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "reinterpret_cast",
        "requires",
        "static_cast",
        "template",
        "this",
        "thread_local",
        "throw",
        "try",
        "typeid",
        "typename",
        "using",
        "virtual",
        "xor",
        "xor_eq",
        "char8_t",
        "char16_t",
        "char32_t",
        "wchar_t",
    ]
)
_KNOWN_PRAGMAS = ("loop_unroll", "unroll", "loop_taken", "tpc_printf", "once", "nounroll", "clang", "GCC", "message")
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_STATEMENTS = ("return", "else", "do", "case", "goto", "default")
_CONTROL = ("if", "for", "while", "switch")
_QUALIFIERS = ("const", "volatile", "register", "restrict", "static", "inline", "unsigned", "signed", "struct")
_REPLACED = {
    "_Bool": "bool",
    "restrict": "",
    "__restrict": "",
    "register": "",
    "_Static_assert": "static_assert",
    "_Alignas": "alignas",
    "_Alignof": "alignof",
}
_VECTOR = re.compile(r"^(?:u?(?:int|short|char)|float|bfloat|half|minifloat|minihalf|bool)\d{2,3}$|^int5$")
ENTRY = "tpc_kernel_main"


class Parameter(NamedTuple):
    """One parameter of a kernel's `main`."""

    type: str
    name: str

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, and not a number."""
        return "tensor" in self.type.split()


class Warned(NamedTuple):
    """Something that is not an error."""

    file: str
    line: int
    message: str


@dataclass
class Kernel:
    """A source that was rewritten."""

    text: str
    parameters: list[Parameter]
    warnings: list[Warned]
    called: frozenset[str]  # functions that it does not define
    local: tuple[str, ...] = ()  # variables in local memory


class SourceError(Exception):
    """A kernel's source can't be used; the message has no place in the file."""


def rewrite(source: str, checked: bool = False) -> Kernel:
    """Rewrite what the preprocessor has given. Raises SourceError if there is no `main`.

    `checked`: for the variant with checks, in which uses of local memory are noted.
    """
    warnings: list[Warned] = []
    parts = grouped(_without_pragmas(source, warnings))
    called = frozenset(_called(parts)) - _defined(parts)
    parameters = _parameters(parts)
    _rename(parts)
    local = local_memory.declared(parts)
    _place_local(parts)
    if checked:
        local_memory.instrument(parts, local)
    _rewrite_top(parts)
    return Kernel(text_of(parts), parameters, warnings, called, tuple(local))


def _without_pragmas(source: str, warnings: list[Warned]) -> str:
    """Known pragmas go; unknown ones go with a warning. The lines stay."""
    file, number, kept = "", 0, []
    for line in source.split("\n"):
        marker = re.match(r'#\s*(?:line\s+)?(\d+)\s+"([^"]*)"', line)
        pragma = re.match(r"\s*#\s*pragma\s+(\w+)", line)
        if marker:
            number, file = int(marker.group(1)) - 1, marker.group(2)
            kept.append(f'#line {marker.group(1)} "{file}"')
            continue
        number += 1
        if pragma:
            if pragma.group(1) not in _KNOWN_PRAGMAS:
                warnings.append(Warned(file, number, f"the pragma {pragma.group(1)} is unknown; it has no effect"))
            kept.append("")
            continue
        kept.append(re.sub(r"_Pragma\s*\(\s*\"[^\"]*\"\s*\)", "", line))
    return "\n".join(kept)


def _called(parts: list[Part]) -> Iterator[str]:
    """Words in front of parentheses."""
    previous: Part | None = None
    for part in parts:
        if is_blank(part):
            continue
        if isinstance(part, Group):
            if part.opening == "(" and previous is not None and previous.kind == "word":
                yield previous.text
            yield from _called(part.parts)
        previous = part


def _defined(parts: list[Part]) -> set[str]:
    """Functions with a body."""
    solid = _solid(parts)
    return {
        name.text
        for name, arguments, body in zip(solid, solid[1:], solid[2:], strict=False)
        if name.kind == "word"
        and isinstance(arguments, Group)
        and isinstance(body, Group)
        and (arguments.opening, body.opening) == ("(", "{")
    }


def _solid(parts: list[Part]) -> list[Part]:
    return [part for part in parts if not is_blank(part)]


def _parameters(parts: list[Part]) -> list[Parameter]:
    solid = _solid(parts)
    for place, part in enumerate(solid[:-2]):
        following, body = solid[place + 1], solid[place + 2]
        if part.kind != "word" or part.text != "main" or not isinstance(following, Group):
            continue
        if isinstance(body, Group) and following.opening == "(" and body.opening == "{":
            return [_parameter(each) for each in _split(following.parts, ",") if _named(each)]
    raise SourceError("there is no function main: a kernel is `void main(tensor ..., scalars ...)`")


def _named(parts: list[Part]) -> bool:
    text = text_of(_solid(parts)).strip()
    return text not in ("", "void")


def _parameter(parts: list[Part]) -> Parameter:
    solid = [part.text for part in _solid(parts)]
    if len(solid) < 2:
        raise SourceError(f"a parameter of main has a type and a name, given: {' '.join(solid)}")
    kinds = [word for word in solid[:-1] if word not in ("const", "register")]
    return Parameter(" ".join(kinds), solid[-1])


def _split(parts: list[Part], sign: str) -> list[list[Part]]:
    pieces: list[list[Part]] = [[]]
    for part in parts:
        if part.kind == "sign" and part.text == sign:
            pieces.append([])
        else:
            pieces[-1].append(part)
    return pieces


def _rename(parts: list[Part]) -> None:
    for place, part in enumerate(parts):
        if isinstance(part, Group):
            _rename(part.parts)
        elif part.text == "volatile" and _is_of_vector(parts, place):
            part.text = ""
        elif part.kind == "word":
            if part.text == "main":
                part.text = ENTRY
            elif part.text in KEYWORDS:
                part.text += "_"
            else:
                part.text = _REPLACED.get(part.text, part.text)


def _is_of_vector(parts: list[Part], place: int) -> bool:
    """Whether a qualifier belongs to a vector, whose class has no such members."""
    skipped = (*_QUALIFIERS, *local_memory.WORDS)
    near = [parts[place + 1 :], list(reversed(parts[:place]))]
    words = [next((each for each in side if not is_blank(each) and each.text not in skipped), None) for side in near]
    return any(word is not None and _VECTOR.match(word.text) for word in words)


def _place_local(parts: list[Part]) -> None:
    """`__local__` in front of a variable of the file is memory of its thread; elsewhere it says nothing here."""
    for place, part in enumerate(parts):
        if isinstance(part, Group):
            _drop_local(part.parts)
        elif part.kind == "word" and part.text in local_memory.WORDS:
            part.text = "static thread_local" if _starts_declaration(parts[:place]) else ""


def _drop_local(parts: list[Part]) -> None:
    for part in parts:
        if isinstance(part, Group):
            _drop_local(part.parts)
        elif part.kind == "word" and part.text in local_memory.WORDS:
            part.text = ""


def _starts_declaration(before: list[Part]) -> bool:
    """Whether a declaration begins here; `static` in front of it goes."""
    for part in reversed(before):
        if is_blank(part):
            continue
        if isinstance(part, Token) and part.text in ("static", "extern"):
            part.text = ""
            continue
        return part.text == ";" or (isinstance(part, Group) and part.opening == "{")
    return True


def _rewrite_top(parts: list[Part]) -> None:
    """Bodies of functions, and initialisers of variables of the file."""
    previous: Part | None = None
    for part in parts:
        if is_blank(part):
            continue
        if isinstance(part, Group) and part.opening == "{":
            function = isinstance(previous, Group) and previous.opening == "("
            if function:
                _rewrite_body(part)
        previous = part


def _rewrite_body(group: Group) -> None:
    """Rewrite inside a function, the innermost first."""
    for part in group.parts:
        if isinstance(part, Group) and part.opening != "[":
            _rewrite_body(part)
    _rewrite_initialisers(group)
    _rewrite_conditionals(group)


def _rewrite_initialisers(group: Group) -> None:
    """Braces with designators."""
    previous: Part | None = None
    for place, part in enumerate(group.parts):
        if is_blank(part):
            continue
        if isinstance(part, Group) and part.opening == "{" and _has_designators(part):
            literal = isinstance(previous, Group) and previous.opening == "("
            value = _designated(part)
            group.parts[place] = Token("word", f"({value})" if literal else value)
        previous = part


def _has_designators(group: Group) -> bool:
    for element in _split(group.parts, ","):
        solid = _solid(element)
        if len(solid) > 2 and solid[0].text == "." and solid[1].kind == "word" and _assigns(solid):
            return True
        if len(solid) > 1 and isinstance(solid[0], Group) and solid[0].opening == "[" and _assigns(solid):
            return True
    return False


def _assigns(solid: list[Part]) -> bool:
    return any(part.text == "=" for part in solid)


def _designated(group: Group) -> str:
    """Positions if every element has a number that is one; else a function that sets each."""
    elements = [element for element in _split(group.parts, ",") if _solid(element)]
    lines = "".join(part.text for part in _flat(group.parts) if part.kind == "line")
    numbered: dict[int, str] = {}
    for position, element in enumerate(elements):
        solid = _solid(element)
        index, value = position, text_of(element).strip()
        if isinstance(solid[0], Group) and solid[0].opening == "[" and _assigns(solid):
            inside = text_of(solid[0].parts).strip()
            if not inside.isdigit():
                break
            index, value = int(inside), text_of(element[_place_of_assignment(element) + 1 :]).strip()
        elif solid[0].text == ".":
            break
        numbered[index] = value
    else:
        values = [numbered.get(index, "{}") for index in range(max(numbered) + 1)]
        return "{" + ", ".join("0" if value == "{}" else value for value in values) + "}" + lines
    statements = []
    for element in elements:
        place = _place_of_assignment(element)
        target, value = text_of(element[:place]).strip(), text_of(element[place + 1 :]).strip()
        statements.append(f"tpc_value{target} = {value};")
    return f"::tpc::designated([&](auto& tpc_value) {{ {' '.join(statements)} }}){lines}"


def _flat(parts: list[Part]) -> list[Token]:
    found: list[Token] = []
    for part in parts:
        found += _flat(part.parts) if isinstance(part, Group) else [part]
    return found


def _place_of_assignment(parts: list[Part]) -> int:
    return next(place for place, part in enumerate(parts) if part.text == "=")


def _rewrite_conditionals(group: Group) -> None:
    """`a ? b : c`, in each expression of a group."""
    result: list[Part] = []
    expression: list[Part] = []
    for part in group.parts:
        if _ends_expression(part, group.opening):
            result += [*_conditional(expression), part]
            expression = []
        else:
            expression.append(part)
    group.parts = result + _conditional(expression)


def _ends_expression(part: Part, opening: str) -> bool:
    if part.kind == "word":
        return part.text in _STATEMENTS
    if isinstance(part, Group):
        return False
    return part.kind == "sign" and (part.text in (";", ",") or part.text in _ASSIGNMENTS)


def _conditional(parts: list[Part]) -> list[Part]:
    question = _find(parts, "?", 0)
    if question < 0:
        return parts
    colon = _matching_colon(parts, question)
    if colon < 0:
        return parts
    start = _start_of_condition(parts[:question])
    condition, yes, no = parts[start:question], parts[question + 1 : colon], parts[colon + 1 :]
    chosen = text_of(_conditional(yes)) if _solid(yes) else text_of(condition)
    other = text_of(_conditional(no))
    call = (
        f"::tpc::select(({text_of(condition).strip()}), [&]() {{ return ({chosen}); }}, [&]() {{ return ({other}); }})"
    )
    return [*parts[:start], Token("word", f" {call}")]


def _find(parts: list[Part], sign: str, start: int) -> int:
    for place in range(start, len(parts)):
        if parts[place].kind == "sign" and parts[place].text == sign:
            return place
    return -1


def _matching_colon(parts: list[Part], question: int) -> int:
    depth = 0
    for place in range(question + 1, len(parts)):
        if parts[place].kind != "sign":
            continue
        if parts[place].text == "?":
            depth += 1
        elif parts[place].text == ":":
            if depth == 0:
                return place
            depth -= 1
    return -1


def _start_of_condition(parts: list[Part]) -> int:
    """Behind labels, blocks, and the heads of statements."""
    start = 0
    for place, part in enumerate(parts):
        before = next((other for other in reversed(parts[:place]) if not is_blank(other)), None)
        label = part.kind == "sign" and part.text == ":"
        head = isinstance(part, Group) and part.opening == "(" and before is not None and before.text in _CONTROL
        block = isinstance(part, Group) and part.opening == "{" and not _is_literal(before)
        if label or head or block:
            start = place + 1
    while start < len(parts) and is_blank(parts[start]):
        start += 1
    return start


def _is_literal(before: Part | None) -> bool:
    """Whether braces behind this are a value, as in `(int5){1, 2}`."""
    if not isinstance(before, Group) or before.opening != "(":
        return False
    inside = _solid(before.parts)
    return 0 < len(inside) <= 3 and all(part.kind == "word" or part.text == "*" for part in inside)
