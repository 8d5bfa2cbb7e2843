"""Uses of variables with `__local__`, for the variant of a kernel with checks: each becomes a call that notes it.

A use is a read, a write or both. A variable whose address is taken counts as written, because its later uses are not
seen.
"""

from openhpu_tpc.tokens import Group, Part, Token, is_blank, text_of

WORDS = ("__local__", "__local")
_UPDATES = ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")


def declared(parts: list[Part]) -> dict[str, int]:
    """The variables of the file in local memory, each with the number of its dimensions."""
    found: dict[str, int] = {}
    for place, part in enumerate(parts):
        if part.kind != "word" or part.text not in WORDS:
            continue
        declarator: list[Part] = []
        for other in parts[place + 1 :]:
            if is_blank(other):
                continue
            if other.text in (",", ";"):
                _add(declarator, found)
                declarator = []
            else:
                declarator.append(other)
            if other.text == ";":
                break
    return found


def _add(declarator: list[Part], found: dict[str, int]) -> None:
    name = ""
    for place, part in enumerate(declarator):
        if part.kind == "word":
            name = part.text
        elif isinstance(part, Group) or part.text == "=":
            dimensions = [each for each in declarator[place:] if isinstance(each, Group) and each.opening == "["]
            if name:
                found[name] = len(dimensions)
            return
    if name:
        found[name] = 0


def instrument(parts: list[Part], names: dict[str, int]) -> None:
    """Change the uses in the bodies of functions."""
    previous: Part | None = None
    for part in parts:
        if is_blank(part):
            continue
        body = isinstance(part, Group) and part.opening == "{"
        if body and isinstance(previous, Group) and previous.opening == "(":
            assert isinstance(part, Group)
            _instrument(part, names)
        previous = part


def _instrument(group: Group, names: dict[str, int]) -> None:
    parts = group.parts
    result: list[Part] = []
    place = 0
    while place < len(parts):
        part = parts[place]
        before = [each for each in result if not is_blank(each)][-2:]
        last = before[-1].text if before else ""
        if isinstance(part, Group):
            if last != "sizeof":
                _instrument(part, names)
        elif part.kind == "word" and part.text in names and last not in (".", "->"):
            end, indices, suffix = _reach(parts, place + 1, names[part.text])
            for each in (*indices, *suffix):
                if isinstance(each, Group):
                    _instrument(each, names)
            following = next((each.text for each in parts[end:] if not is_blank(each)), "")
            address = last == "&" and (len(before) == 1 or before[0].text in ("(", "=", ",", "return"))
            text = _use(part.text, names[part.text], indices, text_of(suffix), following, last, address)
            result.append(Token("word", text))
            result += [each for each in parts[place:end] if each.kind in ("line", "directive")]
            place = end
            continue
        result.append(part)
        place += 1
    group.parts = result


def _reach(parts: list[Part], place: int, dimensions: int) -> tuple[int, list[Group], list[Part]]:
    """Where a use ends, its indices, and the members and lanes behind them."""
    indices: list[Group] = []
    suffix: list[Part] = []
    end = place
    while place < len(parts):
        part = parts[place]
        if is_blank(part):
            place += 1
            continue
        if isinstance(part, Group) and part.opening == "[":
            if len(indices) < dimensions:
                indices.append(part)
            else:
                suffix.append(part)
        elif part.text == "." and place + 1 < len(parts) and parts[place + 1].kind == "word":
            suffix += parts[place : place + 2]
            place += 1
        else:
            break
        place += 1
        end = place
    return end, indices, suffix


def _use(
    name: str, dimensions: int, indices: list[Group], suffix: str, following: str, before: str, address: bool
) -> str:
    if address or len(indices) < dimensions:
        return f'::tpc::local_escape({name}, "{name}"){text_of(list(indices))}{suffix}'
    element, prefix = name, name
    for index in indices:
        count = f"sizeof({prefix}) / sizeof({prefix}[0])"
        element += f'[::tpc::local_index({text_of(index.parts)}, {count}, "{name}")]'
        prefix += "[0]"
    updates = following in _UPDATES or before in ("++", "--")
    kind = "update" if updates else "write" if following == "=" else "read"
    return f'::tpc::local_{kind}({element}{suffix}, {name}, "{name}")'
