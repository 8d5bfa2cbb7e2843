"""Functions that change what they reach: each entry gives a function of a tensor, and what tells what it changed."""

import array
import collections
import contextlib
import contextvars
import ctypes
import dataclasses
import functools
import io
import itertools
import logging
import os
import queue
import random
import re
import sys
import tempfile
import threading
import types
import weakref

import numpy as np
import torch
from torch import nn

COUNT = 0
HISTORY = []
SETTINGS = types.ModuleType("settings_of_a_script")
SETTINGS.__file__ = "settings_of_a_script.py"
SETTINGS.count = 0
CONTEXT = contextvars.ContextVar("count", default=0)
LOG = logging.getLogger("mutable_kinds")


class SimpleObject:
    total = 0
    seen = []  # noqa: RUF012

    def __init__(self):
        self.n = 0


class Slotted:
    __slots__ = ("late", "n")

    def __init__(self):
        self.n = 0


class Child(Slotted):
    __slots__ = ("m",)


@dataclasses.dataclass(slots=True)
class Data:
    n: int = 0
    items: list = dataclasses.field(default_factory=list)


class OwnList(list):
    pass


class OwnDict(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value + 1)


class Counting:
    """An iterator of Python's."""

    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        return self.n


class Meta(type):
    made = 0


class Made(metaclass=Meta):
    pass


def grow_class(cls):
    cls.total = cls.total + 1


def with_slot(s):
    s.n += 1
    s.late = s.n


def tensor_bump(t):
    with torch.no_grad():
        t += 1


# Each: what makes an object, what the function does to it, and what a script then sees of it.
OBJECTS = {
    "an attribute": (SimpleObject, lambda s: setattr(s, "n", s.n + 1), lambda s: s.n),
    "a new attribute": (SimpleObject, lambda s: s.__dict__.setdefault("late", s.n), lambda s: [*vars(s)]),
    "a deleted attribute": (SimpleObject, lambda s: vars(s).pop("n", 0), lambda s: [*vars(s)]),
    "__dict__": (SimpleObject, lambda s: setattr(s, "__dict__", {"n": s.n + 1}), lambda s: s.n),
    "a class attribute": (SimpleObject, lambda s: grow_class(type(s)), lambda s: SimpleObject.total),
    "a list of a class": (SimpleObject, lambda s: s.seen.append(1), lambda s: len(SimpleObject.seen)),
    "an attribute of a metaclass": (Made, lambda s: setattr(Meta, "made", Meta.made + 1), lambda s: Meta.made),
    "__slots__": (Slotted, with_slot, lambda s: (s.n, hasattr(s, "late"))),
    "__slots__ of a base": (Child, with_slot, lambda s: s.n),
    "a dataclass with slots": (Data, lambda s: (setattr(s, "n", s.n + 1), s.items.append(1)), lambda s: (s.n, s.items)),
    "a namespace": (lambda: types.SimpleNamespace(n=0), lambda s: setattr(s, "n", s.n + 1), lambda s: s.n),
    "a list": (list, lambda s: s.append(len(s)), list),
    "a list in a tuple": (lambda: ([0], 1), lambda s: s[0].append(1), lambda s: s[0]),
    "a list in a frozenset's object": (
        lambda: frozenset([SimpleObject()]),
        lambda s: [vars(o).update(n=o.n + 1) for o in s],
        lambda s: [o.n for o in s],
    ),
    "a list of its own class": (OwnList, lambda s: s.append(1), list),
    "a sorted list": (lambda: [1, 2, 3], lambda s: s.reverse(), list),
    "a dict": (dict, lambda s: s.update({len(s): 1}), dict),
    "the order of a dict": (lambda: {1: 1, 2: 2}, lambda s: s.update({1: s.pop(1)}), list),
    "a dict of its own class": (lambda: OwnDict(a=1), lambda s: s.__setitem__("a", s["a"]), dict),
    "a set": (set, lambda s: s.add(len(s)), set),
    "a removed member": (lambda: {1, 2, 3}, lambda s: s.pop(), set),
    "a deque": (lambda: collections.deque([0], maxlen=3), lambda s: s.append(len(s)), list),
    "a rotated deque": (lambda: collections.deque([1, 2, 3]), lambda s: s.rotate(1), list),
    "a defaultdict": (lambda: collections.defaultdict(int), lambda s: s[len(s)], dict),
    "a Counter": (collections.Counter, lambda s: s.update("ab"), dict),
    "an OrderedDict": (lambda: collections.OrderedDict(a=1, b=2), lambda s: s.move_to_end(next(iter(s))), list),
    "a ChainMap": (lambda: collections.ChainMap({}), lambda s: s.__setitem__(len(s), 1), dict),
    "a UserList": (collections.UserList, lambda s: s.append(1), list),
    "a bytearray": (lambda: bytearray(b"a"), lambda s: s.append(98), bytes),
    "a byte": (lambda: bytearray(b"ab"), lambda s: s.__setitem__(0, (s[0] + 1) % 256), bytes),
    "an array": (lambda: array.array("d", [1.0]), lambda s: s.append(2.0), list),
    "a memoryview": (lambda: memoryview(bytearray(4)), lambda s: s.__setitem__(0, s[0] + 1), bytes),
    "a number of ctypes": (lambda: ctypes.c_int(0), lambda s: setattr(s, "value", s.value + 1), lambda s: s.value),
    "an array of ctypes": (lambda: (ctypes.c_int * 3)(), lambda s: s.__setitem__(0, s[0] + 1), list),
    "a NumPy array": (lambda: np.zeros(3), lambda s: s.__iadd__(1), lambda s: s.tolist()),
    "a view of a NumPy array": (lambda: np.zeros((3, 3))[:, 1], lambda s: s.__iadd__(1), lambda s: s.tolist()),
    "a NumPy array of objects": (
        lambda: np.array([SimpleObject()], dtype=object),
        lambda s: vars(s[0]).update(n=s[0].n + 1),
        lambda s: s[0].n,
    ),
    "a structured array": (lambda: np.zeros(2, dtype=[("a", int)]), lambda s: s["a"].__iadd__(1), lambda s: s.tolist()),
    "a masked array": (lambda: np.ma.array([1.0, 2.0]), lambda s: s.__setitem__(0, np.ma.masked), lambda s: s.tolist()),
    "a CPU tensor": (lambda: torch.zeros(3), lambda s: s.add_(1), lambda s: s.tolist()),
    "a view of a CPU tensor": (lambda: torch.zeros(3, 3)[:, 1], lambda s: s.add_(1), lambda s: s.tolist()),
    "a CPU parameter": (lambda: nn.Parameter(torch.zeros(3)), tensor_bump, lambda s: s.tolist()),
    "a tensor through NumPy": (lambda: torch.zeros(3), lambda s: s.numpy().__iadd__(1), lambda s: s.tolist()),
    "a resized CPU tensor": (lambda: torch.zeros(3), lambda s: s.resize_(s.numel() + 1).zero_(), lambda s: s.tolist()),
    "a gradient on the CPU": (
        lambda: nn.Parameter(torch.zeros(3)),
        lambda s: setattr(s, "grad", torch.ones(3) if s.grad is None else s.grad + 1),
        lambda s: s.grad.tolist(),
    ),
    "an attribute of a tensor": (
        lambda: torch.zeros(3),
        lambda s: setattr(s, "n", getattr(s, "n", 0) + 1),
        lambda s: s.n,
    ),
    "requires_grad": (
        lambda: torch.zeros(3),
        lambda s: s.requires_grad_(not s.requires_grad),
        lambda s: s.requires_grad,
    ),
    "a hook of a tensor": (
        lambda: torch.zeros(3, requires_grad=True),
        lambda s: s.register_hook(print),
        lambda s: len(s._backward_hooks),
    ),
    "a module on the CPU": (
        lambda: nn.BatchNorm1d(3),
        lambda s: s(torch.ones(2, 3)),
        lambda s: s.num_batches_tracked.item(),
    ),
    "hooks of a module": (
        lambda: nn.Linear(1, 1),
        lambda s: s.register_forward_hook(lambda *_: None),
        lambda s: len(s._forward_hooks),
    ),
    "training": (lambda: nn.Dropout(), lambda s: s.train(not s.training), lambda s: s.training),
    "an optimizer": (
        lambda: torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0),
        lambda s: s.param_groups[0].update(lr=s.param_groups[0]["lr"] / 2),
        lambda s: s.param_groups[0]["lr"],
    ),
    "a generator of PyTorch's": (
        lambda: torch.Generator().manual_seed(1),
        lambda s: torch.rand(2, generator=s),
        lambda s: torch.rand(2, generator=s).tolist(),
    ),
    "a generator of hpu": (
        lambda: torch.Generator("hpu").manual_seed(1),
        lambda s: torch.rand(2, device="hpu", generator=s),
        lambda s: torch.rand(2, device="hpu", generator=s).tolist(),
    ),
    "a generator of hpu that gets a seed": (
        lambda: torch.Generator("hpu").manual_seed(1),
        lambda s: s.manual_seed(s.initial_seed() + 1),
        lambda s: s.initial_seed(),
    ),
    "random.Random": (lambda: random.Random(1), lambda s: s.random(), lambda s: s.random()),
    "a method of random.Random": (lambda: random.Random(1).random, lambda s: s(), lambda s: s()),
    "numpy.random.Generator": (lambda: np.random.default_rng(1), lambda s: s.random(), lambda s: s.random()),
    "numpy.random.RandomState": (lambda: np.random.RandomState(1), lambda s: s.rand(), lambda s: s.rand()),
    "a bit generator": (lambda: np.random.PCG64(1), lambda s: s.random_raw(), lambda s: s.random_raw()),
    "an iterator of a list": (lambda: iter([1, 2, 3, 4, 5, 6, 7, 8]), next, list),
    "an iterator of a dict": (lambda: iter(dict.fromkeys(range(9))), next, list),
    "itertools.count": (itertools.count, next, next),
    "itertools.cycle": (lambda: itertools.cycle("abc"), next, next),
    "enumerate": (lambda: enumerate(range(9)), next, next),
    "zip": (lambda: zip(range(9), range(9), strict=True), next, next),
    "map": (lambda: map(str, range(9)), next, next),
    "a generator": (lambda: (n for n in range(9)), next, next),
    "an iterator of Python's": (Counting, next, lambda s: s.n),
    "StringIO": (io.StringIO, lambda s: s.write("a"), lambda s: (s.getvalue(), s.tell())),
    "BytesIO": (lambda: io.BytesIO(b"abc"), lambda s: s.read(1), lambda s: s.tell()),
    "a queue": (queue.Queue, lambda s: s.put(1), lambda s: s.qsize()),
    "a simple queue": (queue.SimpleQueue, lambda s: s.put(1), lambda s: s.qsize()),
    "an event": (threading.Event, lambda s: s.clear() if s.is_set() else s.set(), lambda s: s.is_set()),
    "a semaphore": (threading.Semaphore, lambda s: s.release(), lambda s: s._value),
    "threading.local": (threading.local, lambda s: setattr(s, "n", getattr(s, "n", 0) + 1), lambda s: s.n),
    "a weak reference": (
        lambda: (o := SimpleObject(), weakref.ref(o)),
        lambda s: vars(s[1]()).update(n=s[1]().n + 1),
        lambda s: s[0].n,
    ),
    "a weak proxy": (
        lambda: (o := SimpleObject(), weakref.proxy(o)),
        lambda s: setattr(s[1], "n", s[1].n + 1),
        lambda s: s[0].n,
    ),
    "a WeakKeyDictionary": (
        lambda: (SimpleObject(), weakref.WeakKeyDictionary()),
        lambda s: s[1].update({s[0]: len(s[1]) + 1}),
        lambda s: [*s[1].values()],
    ),
    "functools.partial": (lambda: functools.partial(list.append, []), lambda s: s(1), lambda s: s.args[0]),
    "an error": (lambda: ValueError([]), lambda s: s.args[0].append(1), lambda s: s.args[0]),
    "a bound method": (lambda: [].append, lambda s: s(1), lambda s: s.__self__),
    "an enumeration of a set's object": (
        lambda: {"a": collections.deque()},
        lambda s: s["a"].append(1),
        lambda s: [*s["a"]],
    ),
}


def of_object(make, change, look):
    """A function that changes an object of its closure."""

    def script():
        held = make()

        def function(x):
            change(held)
            return x * 2

        return function, lambda: look(held)

    return script


def a_global():
    def function(x):
        global COUNT
        COUNT += 1
        return x * 2

    return function, lambda: COUNT


def a_global_list():
    def function(x):
        HISTORY.append(len(HISTORY))
        return x * 2

    return function, lambda: len(HISTORY)


def a_new_global():
    globals().pop("MADE_LATE", None)

    def function(x):
        global MADE_LATE
        MADE_LATE = globals().get("MADE_LATE", 0) + 1
        return x * 2

    return function, lambda: MADE_LATE


def a_global_by_its_text():
    def function(x):
        globals()["COUNT"] = globals()["COUNT"] + 1
        return x * 2

    return function, lambda: COUNT


def an_attribute_of_a_module():
    def function(x):
        SETTINGS.count += 1
        return x * 2

    return function, lambda: SETTINGS.count


def an_attribute_of_a_module_by_its_text():
    def function(x):
        setattr(SETTINGS, "count", getattr(SETTINGS, "count") + 1)  # noqa: B009, B010
        return x * 2

    return function, lambda: SETTINGS.count


def a_variable_of_a_closure():
    n = 0

    def function(x):
        nonlocal n
        n += 1
        return x * 2

    return function, lambda: n


def a_default():
    def function(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x * 2

    return function, lambda: len(function.__defaults__[0])


def a_default_by_name():
    def function(x, *, seen=[]):  # noqa: B006
        seen.append(1)
        return x * 2

    return function, lambda: len(function.__kwdefaults__["seen"])


def an_attribute_of_a_function():
    def function(x):
        function.calls = getattr(function, "calls", 0) + 1
        return x * 2

    return function, lambda: function.calls


def through_another_function():
    held = []

    def inner():
        held.append(1)

    def function(x):
        inner()
        return x * 2

    return function, lambda: held


def through_a_decorated_one():
    held = []

    @functools.wraps(len)
    def outer():
        held.append(1)

    @functools.cache
    def cached(n):
        held.append(n)
        return n

    @torch.no_grad()
    def function(x):
        outer()
        cached(1)
        return x * 2

    return function, lambda: held


def through_a_property():
    class Owner:
        calls = 0

        @property
        def scale(self):
            Owner.calls += 1
            return 2.0

        @staticmethod
        def note():
            Owner.calls += 1

        @classmethod
        def noted(cls):
            cls.calls += 1

    owner = Owner()

    def function(x):
        owner.note()
        owner.noted()
        return x * owner.scale

    return function, lambda: Owner.calls


def a_context_variable():
    def function(x):
        CONTEXT.set(CONTEXT.get() + 1)
        return x * 2

    return function, CONTEXT.get


def a_random_number_of_the_process():
    random.seed(1)
    torch.manual_seed(1)
    np.random.seed(1)

    def function(x):
        random.random(), torch.rand(1), np.random.rand()
        return x * 2

    return function, lambda: (random.random(), torch.rand(1).item(), np.random.rand())


def a_seed_of_the_process():
    torch.manual_seed(1)

    def function(x):
        torch.manual_seed(7)
        return x + torch.rand(4, device="hpu")

    return function, lambda: torch.rand(2, device="hpu").tolist()


def a_setting_of_pytorch():
    def function(x):
        torch.set_default_dtype(torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32)
        return x * 2

    def look():
        found = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        return found

    return function, look


def a_gradient_of_hpu():
    parameter = nn.Parameter(torch.ones(4, device="hpu"))

    def function(x):
        parameter.grad = x * 2
        return x * 2

    return function, lambda: parameter.grad.tolist()


def memory_of_hpu():
    held = nn.Linear(4, 4).to("hpu")
    held.weight.data.fill_(1.0)

    def function(x):
        held.weight.data = held.weight.data * 2
        return x * 2

    return function, lambda: held.weight.data.tolist()


def what_is_printed():
    def function(x):
        print("printed")
        print("printed too", file=sys.stderr)
        LOG.warning("logged")
        return x * 2

    return function, lambda: None


def an_open_file():
    file = tempfile.TemporaryFile("w+")  # noqa: SIM115

    def function(x):
        file.write("a")
        return x * 2

    def look():
        with file:
            file.seek(0)
            return file.read()

    return function, look


def a_file_that_is_read():
    file = open(__file__)  # noqa: SIM115

    def function(x):
        file.read(3)
        return x * 2

    def look():
        with file:
            return file.tell()

    return function, look


def opening(errors):
    """A function that appends to a file, and handles `errors` in it."""
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "log")

    def function(x):
        with contextlib.suppress(*errors), open(path, "a") as file:
            file.write("a")
        return x * 2

    def look():
        with folder, open(path) as file:
            return file.read()

    return function, look


def a_file_that_is_opened():
    return opening(())


def a_file_in_spite_of_the_refusal():
    return opening((Exception,))


def a_folder():
    folder = tempfile.TemporaryDirectory()

    def function(x):
        os.makedirs(os.path.join(folder.name, str(len(os.listdir(folder.name)))))
        return x * 2

    def look():
        with folder:
            return len(os.listdir(folder.name))

    return function, look


def a_descriptor():
    reading, writing = os.pipe()

    def function(x):
        os.write(writing, b"a")
        return x * 2

    def look():
        os.close(writing)
        found = os.read(reading, 100)
        os.close(reading)
        return found

    return function, look


def the_environment():
    os.environ.pop("OF_MUTABLE_KINDS", None)

    def function(x):
        os.environ["OF_MUTABLE_KINDS"] = os.environ.get("OF_MUTABLE_KINDS", "") + "a"
        return x * 2

    return function, lambda: os.environ.pop("OF_MUTABLE_KINDS")


def a_thread():
    held = []

    def function(x):
        thread = threading.Thread(target=held.append, args=(1,))
        thread.start()
        thread.join()
        return x * 2

    return function, lambda: held


def a_log_in_a_list():
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    handler = Handler()
    LOG.addHandler(handler)

    def function(x):
        LOG.warning("logged")
        return x * 2

    def look():
        LOG.removeHandler(handler)
        return records

    return function, look


def a_compiled_pattern():
    pattern, held = re.compile("a"), []

    def function(x):
        held.append(pattern.match("a") is not None)
        return x * 2

    return function, lambda: held


SCRIPTS = (
    a_global,
    a_global_list,
    a_new_global,
    a_global_by_its_text,
    an_attribute_of_a_module,
    an_attribute_of_a_module_by_its_text,
    a_variable_of_a_closure,
    a_default,
    a_default_by_name,
    an_attribute_of_a_function,
    through_another_function,
    through_a_decorated_one,
    through_a_property,
    a_context_variable,
    a_random_number_of_the_process,
    a_seed_of_the_process,
    a_setting_of_pytorch,
    a_gradient_of_hpu,
    memory_of_hpu,
    what_is_printed,
    an_open_file,
    a_file_that_is_read,
    a_file_that_is_opened,
    a_file_in_spite_of_the_refusal,
    a_folder,
    a_descriptor,
    the_environment,
    a_thread,
    a_log_in_a_list,
    a_compiled_pattern,
)
KINDS = {name: of_object(*parts) for name, parts in OBJECTS.items()}
KINDS |= {script.__name__.replace("_", " "): script for script in SCRIPTS}
# What a replay repeats otherwise than the function: these graphs are stale.
STALE = ("a seed of the process", "memory of hpu")
# What can't be undone: these graphs are not checked, and the reason names this.
NAMED = {
    "an iterator of a list": "`held` of type list_iterator",
    "an iterator of a dict": "`held` of type dict_keyiterator",
    "itertools.count": "`held` of type itertools.count",
    "itertools.cycle": "`held` of type itertools.cycle",
    "enumerate": "`held` of type enumerate",
    "zip": "`held` of type zip",
    "map": "`held` of type map",
    "a generator": "`held` of type generator",
    "a simple queue": "`held` of type _queue.SimpleQueue",
    "an open file": "`file` of type",
    "a file that is opened": "it writes to the file",
    "a file in spite of the refusal": "it writes to the file",
    "a folder": "it changes files",
    "a descriptor": "os.write changes what is outside",
    "the environment": "it changes variables of the environment",
    "a thread": "it starts a thread",
}


def reset():
    """What the scripts of one kind share is as at the begin."""
    global COUNT
    COUNT = SETTINGS.count = Meta.made = SimpleObject.total = 0
    HISTORY.clear()
    SimpleObject.seen.clear()
    CONTEXT.set(0)
