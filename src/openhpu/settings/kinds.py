"""The rows of the table, and the conversion of a variable's text to a value."""

from typing import Any, Literal, NamedTuple

Kind = Literal["bool", "int", "float", "text", "choice", "choice list", "int list", "mask"]

MAX_MODULES = 64  # of a machine, and devices of a process: kMaxDevices of the core

_BOOLS = {
    **dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("0", "false", "no", "off", "f", "n", ""), False),
}


class SettingError(ValueError):
    """An environment variable holds a value that is not allowed; the text names variable, value and remedy."""


class Setting(NamedTuple):
    """One environment variable.

    `name` may end in `*`: a family of variables with that prefix. `default` is the typed value of the unset
    variable. `choices` are the allowed values of a `choice`, `low` and `high` the limits of a number, both
    inclusive. `effective` says whether the variable changes anything in this version. `option` is its name among the
    options of torch.compile's backend. `strict` is the default under OPENHPU_STRICT=gaudi, where that differs.
    """

    name: str
    kind: Kind
    default: Any
    when: str
    meaning: str
    effective: bool = True
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    option: str = ""
    strict: Any = None

    def allowed(self) -> str:
        """The allowed values, in words."""
        return {
            "bool": "1, true, yes, on or 0, false, no, off",
            "choice": ", ".join(choice or "(empty)" for choice in self.choices),
            "choice list": f"one or more of {', '.join(self.choices)}, separated by commas",
            "text": "any text",
            "mask": "a hexadecimal number, with or without 0x",
            "int list": f"distinct whole numbers{self._range()}, separated by commas",
            "int": f"a whole number{self._range()}",
            "float": f"a number{self._range()}",
        }[self.kind]

    def _range(self) -> str:
        if self.low is not None and self.high is not None:
            return f" from {self.low:g} to {self.high:g}"
        return "" if self.low is None else f" from {self.low:g} on"

    def parse(self, text: str, name: str | None = None) -> Any:
        """The typed value of `text`; raises SettingError. `name` is the variable's full name in a family."""
        value = self._convert(text.strip())
        if value is None:
            raise SettingError(
                f"environment variable {name or self.name}={text!r} is not valid{self._flaw(text)}; "
                f"allowed: {self.allowed()}. Change it or unset it."
            )
        return value

    def _flaw(self, text: str) -> str:
        """Which part of a list of numbers is wrong, and why, as part of a sentence."""
        parts = [part.strip() for part in text.split(",")] if self.kind == "int list" else []
        for place, part in enumerate(parts):
            try:
                number = int(part)
            except ValueError:
                return f": {part!r} is not a whole number"
            if not self._inside(number):
                return f": {number} is out of range"
            if number in map(int, parts[:place]):
                return f": {number} is given twice"
        return ""

    def _convert(self, text: str) -> Any:
        if self.kind == "text":
            return text
        if self.kind == "bool":
            lowered = text.lower()
            return _BOOLS.get(lowered)
        if self.kind == "choice":
            return text if text in self.choices else None
        if self.kind == "choice list":
            parts = tuple(part.strip() for part in text.split(","))
            return parts if set(parts) <= set(self.choices) else None
        try:
            if self.kind == "int list":
                return None if self._flaw(text) else tuple(map(int, text.split(",")))
            if self.kind == "mask":
                mask = int(text, 16)
                return mask if mask >= 0 else None
            number = int(text) if self.kind == "int" else float(text)
        except ValueError:
            return None
        return number if self._inside(number) else None

    def _inside(self, number: float) -> bool:
        # A NaN fails both comparisons of a limited number.
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def show(self, value: Any) -> str:
        """A value as one would write it in a shell."""
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        if self.kind == "mask":
            return f"{value:x}"
        return str(int(value) if isinstance(value, bool) else value)

    def show_default(self) -> str:
        """The default as one would write it in a shell."""
        if self.default is None or self.default == "":
            return "unset"
        return f"{self.default:g}" if isinstance(self.default, float) else self.show(self.default)
