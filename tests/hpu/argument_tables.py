"""Arguments of graphs, in tables: a row makes an argument of a number and uses it."""

import collections
import dataclasses
import enum
import functools
import logging
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn


def tensor(k):
    return torch.full((2,), float(k), device="hpu")


class Plain:
    """Hashable by identity."""

    def __init__(self, m):
        self.m = m


class Equal(Plain):
    """Can't be hashed."""

    def __eq__(self, other):
        return True


class Alike(Equal):
    """Hashable, all alike."""

    def __hash__(self):
        return 1


class OnlySlots:
    __slots__ = ("__private", "m")

    def __init__(self, m):
        self.m = m
        self.__private = 1


class Guarded:
    """Runs code of its own wherever it is made, copied, set or read."""

    def fail(self, *_):
        raise AssertionError

    __init__ = __setattr__ = __getstate__ = __copy__ = __deepcopy__ = __reduce_ex__ = fail


def guarded(m):
    made = object.__new__(Guarded)
    made.__dict__["m"] = m
    return made


@dataclasses.dataclass
class Data:
    m: Any
    late: Any = dataclasses.field(default=None, init=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    m: Any
    scale: Any = dataclasses.field(default=1, compare=False)


class Pair(NamedTuple):
    m: Any
    other: Any = 1


class Tuple(tuple):
    def __new__(cls, *parts):
        return super().__new__(cls, parts)


class List(list):
    def __init__(self, first, second):
        super().__init__([first, second])

    def __iter__(self):
        return iter(())


class Dict(dict):
    def __init__(self, m, *, more):
        super().__init__(m=m, more=more)
        self.more = more

    def items(self):
        return ()

    keys = values = items


class Named(str):
    """A string with attributes, as those of libraries that keep a name and a value in one."""


class Scaled(torch.Tensor):
    """Another class of tensors."""


class Output(collections.OrderedDict):
    """As the outputs of transformers: keys that are attributes, too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


def output(m):
    made = Output()
    made["m"] = m
    return made


class Layer:
    def __init__(self, k):
        self.keys = tensor(k)


class Cache:
    """As transformers' caches: an object of objects."""

    def __init__(self, k):
        self.layers = [Layer(0), Layer(k)]
        self.offloaded = False


class Net(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.weight = nn.Parameter(m)
        self.register_buffer("one", torch.ones_like(m))
        self.lstm_like = [weakref.ref(self.weight)]

    def forward(self, x):
        return x * self.weight * self.one


def with_attributes(made, **names):
    for name, value in names.items():
        setattr(made, name, value)
    return made


def closure(m):
    def function(x):
        return x * m

    return function


def cycle(k):
    made = Plain(tensor(k))
    made.self = made
    made.tuple = (made, [made])
    return made


def gradient(k):
    made = torch.zeros(2, device="hpu", requires_grad=True)
    made.grad = tensor(k)
    return made


def objects(k):
    made = np.empty(2, object)
    made[1] = tensor(k)
    return made


def attribute(x, a):
    return x * a.m


def called(x, a):
    return a(x)


def key_of_a_dict(k):
    key = tensor(k)
    return {key: 1}, key


def weak_reference(k):
    KEPT.append(Layer(k))
    return weakref.ref(KEPT[-1])


def twice(k):
    made = [tensor(k)]
    return Pair(made, made)


def tuple_in_its_own_list(k):
    inner = [tensor(k)]
    made = (inner,)
    inner.append(made)
    return made


KEPT = []
# A name, an argument of a number whose tensor is the number, and a function that multiplies by it.
WALKED = {
    "namespace": (lambda k: types.SimpleNamespace(m=tensor(k)), attribute),
    "by identity": (lambda k: Plain(tensor(k)), attribute),
    "without a hash": (lambda k: Equal(tensor(k)), attribute),
    "all alike": (lambda k: Alike(tensor(k)), attribute),
    "slots alone": (lambda k: OnlySlots(tensor(k)), lambda x, a: x * a.m * a._OnlySlots__private),
    "code of its own": (lambda k: guarded(tensor(k)), attribute),
    "dataclass": (lambda k: with_attributes(Data(tensor(0)), late=tensor(k)), lambda x, a: x * a.late),
    "frozen dataclass": (lambda k: Frozen(tensor(k)), attribute),
    "namedtuple": (lambda k: Pair(tensor(k)), attribute),
    "subclass of tuple": (lambda k: Tuple(1, tensor(k)), lambda x, a: x * a[1]),
    "torch.return_types": (lambda k: torch.max(tensor(k).view(1, 2), 1), lambda x, a: x * a.values),
    "subclass of list": (lambda k: List(1, tensor(k)), lambda x, a: x * a[1]),
    "subclass of dict": (lambda k: Dict(tensor(k), more=1), lambda x, a: x * a["m"] * a.more),
    "defaultdict": (
        lambda k: collections.defaultdict(list, m=tensor(k)),
        lambda x, a: x * a["m"] + len(a.default_factory()),
    ),
    "factory of a defaultdict": (
        lambda k: collections.defaultdict(functools.partial(tensor(k).mul, 1)),
        lambda x, a: x * a.default_factory(),
    ),
    "output of a model": (lambda k: output(tensor(k)), lambda x, a: x * (a.m + a["m"]) / 2),
    "cache": (Cache, lambda x, a: x * a.layers[1].keys),
    "deque": (lambda k: collections.deque([1, tensor(k)], 3), lambda x, a: x * a[1] if a.maxlen == 3 else x),
    "long deque": (
        lambda k: collections.deque([*range(3000), tensor(k)]),
        lambda x, a: x * a[3000] if a[2999] == 2999 else x,
    ),
    "key of a dict": (key_of_a_dict, lambda x, a: x * next(iter(a[0])) * a[0][a[1]]),
    "attribute of a string": (lambda k: with_attributes(Named("n"), m=tensor(k)), attribute),
    "keyword of a partial": (lambda k: functools.partial(torch.mul, other=tensor(k)), called),
    "closure": (lambda k: closure(tensor(k)), called),
    "attribute of a function": (lambda k: with_attributes(lambda: 0, m=tensor(k)), attribute),
    "method": (lambda k: Net(tensor(k)).forward, called),
    "method of a tensor": (lambda k: tensor(k).mul, called),
    "module": (lambda k: Net(tensor(k)), called),
    "weak reference": (weak_reference, lambda x, a: x * a().keys),
    "weak reference in a module": (lambda k: Net(tensor(k)), lambda x, a: x * a.lstm_like[0]()),
    "parameter": (lambda k: nn.Parameter(tensor(k)), lambda x, a: x * a if isinstance(a, nn.Parameter) else x),
    "subclass of Tensor": (
        lambda k: tensor(k).as_subclass(Scaled),
        lambda x, a: x * torch.as_tensor(a) if type(a) is Scaled else x,
    ),
    "attribute of a tensor": (lambda k: with_attributes(tensor(0), scale=tensor(k)), lambda x, a: x * a.scale),
    "gradient": (gradient, lambda x, a: x * a.grad),
    "array of objects": (objects, lambda x, a: x * a[1]),
    "cycle": (cycle, lambda x, a: x * a.self.tuple[0].m if a.tuple[1][0] is a else x),
    "twice": (twice, lambda x, a: x * a.m[0] if a.m is a.other else x * 0),
    "tuple in its own list": (tuple_in_its_own_list, lambda x, a: x * a[0][0] if a[0][1] is a else x),
}


class Identity:
    """Compared by identity, and of one state."""


KNOWN = [Identity() for _ in range(4)]
FUNCTIONS = {k: closure(float(k)) for k in range(4)}


class Factor(enum.Enum):
    ONE = 1
    TWO = 2
    THREE = 3


class Number(float):
    pass


TYPES = [type(f"T{k}", (), {"m": k}) for k in range(4)]


def same_function(k):
    """A function that is always the same one, and a variable of it that changes."""
    CLOSURE.__closure__[0].cell_contents = k
    return CLOSURE


CLOSURE = closure(0)
CONFIG = Plain(0)


def ordered(k):
    made = collections.OrderedDict((i, i) for i in range(1, 4))
    made.move_to_end(k, last=False)
    return made


class Class:
    m = None


class Derived(Class):
    pass


OBJECT = Derived()
MODULE = types.ModuleType("settings")


def class_with(k):
    Class.m = k
    return Class


def object_of_class_with(k):
    class_with(k)
    return OBJECT


def one_or_two(k):
    made = [1]
    return [made, made if k == 1 else [1]]


def array_of(k):
    made = np.ones((2, 2), order="F")
    made[0, 1] = k
    return made


# An argument that holds no tensor of its number, which is in the key.
KEYS = {
    "int": (int, torch.mul),
    "float": (float, torch.mul),
    "subclass of float": (Number, torch.mul),
    "string": (str, lambda x, a: x * int(a)),
    "subclass of str": (lambda k: with_attributes(Named("n"), m=k), attribute),
    "bytearray": (lambda k: bytearray([k]), lambda x, a: x * a[0]),
    "slice": (lambda k: slice(0, k), lambda x, a: x * a.stop),
    "enum": (Factor, lambda x, a: x * a.value),
    "dtype": (
        lambda k: [torch.float32, torch.int32, torch.bfloat16, torch.int16][k],
        lambda x, a: x * [torch.float32, torch.int32, torch.bfloat16, torch.int16].index(a),
    ),
    "class": (TYPES.__getitem__, attribute),
    "function": (FUNCTIONS.get, called),
    "lambda": (lambda k: lambda x: x * k, called),
    "variable of a closure": (same_function, called),
    "builtin function": ([torch.relu, torch.relu, torch.neg, torch.abs].__getitem__, lambda x, a: -x * a(-x)),
    "partial": (lambda k: functools.partial(torch.mul, other=k), called),
    "sentinel": (KNOWN.__getitem__, lambda x, a: x * KNOWN.index(a)),
    "object that is found": (KNOWN.__getitem__, lambda x, a: x * {v: k for k, v in enumerate(KNOWN)}[a]),
    "same object": (lambda k: with_attributes(CONFIG, m=k), attribute),
    "namespace": (lambda k: types.SimpleNamespace(m=k), attribute),
    "all alike": (Alike, attribute),
    "field that is not compared": (lambda k: Frozen(1, k), lambda x, a: x * a.scale),
    "beside a tensor": (lambda k: with_attributes(Plain(tensor(1)), k=k), lambda x, a: x * a.m * a.k),
    "order of an OrderedDict": (ordered, lambda x, a: x * next(iter(a))),
    "order of a dict": (lambda k: {k: 0, 9: 0}, lambda x, a: x * next(iter(a))),
    "set": (lambda k: {k, 9}, lambda x, a: x * min(a)),
    "maxlen": (lambda k: collections.deque(maxlen=k), lambda x, a: x * a.maxlen),
    "long deque": (lambda k: collections.deque([*range(2000), k, *range(1000)]), lambda x, a: x * a[2000]),
    "NumPy's number": (np.float32, lambda x, a: x * float(a)),
    "array": (array_of, lambda x, a: x * float(a[0, 1])),
    "masked array": (
        lambda k: np.ma.masked_array(np.arange(4.0), [i != k for i in range(4)]),
        lambda x, a: x * float(a.sum()),
    ),
    "NumPy's generator": (
        np.random.default_rng,
        lambda x, a: (
            x * (1 + [np.random.default_rng(k).bit_generator.state for k in (1, 2, 3)].index(a.bit_generator.state))
        ),
    ),
    "module's flag": (lambda k: with_attributes(nn.Identity(), m=k), attribute),
    "logger": (lambda k: logging.getLogger(f"graph{k}"), lambda x, a: x * int(a.name[-1])),
    "generator of the device": (lambda k: (torch.Generator(device="hpu"), k), lambda x, a: x * a[1]),
    "which are one": (one_or_two, lambda x, a: x * (1 if a[0] is a[1] else 2)),
    "attribute of a class": (class_with, attribute),
    "tensor of a class": (lambda k: class_with(tensor(k)), attribute),
    "attribute of an object's class": (object_of_class_with, attribute),
    "module of Python's": (lambda k: with_attributes(MODULE, m=tensor(k)), attribute),
}


def number_of(value):
    return value.flatten()[0].item()


class Uses(nn.Module):
    """Its forward is a function of a table."""

    def __init__(self, use):
        super().__init__()
        self.forward = use


def graphed(way, use):
    """`use` as each of the users of a walk runs it."""
    if way == "cached":
        return torch.hpu.ModuleCacher()(Uses(use))
    return torch.hpu.wrap_in_hpu_graph_func(use, disable_tensor_cache=way == "transient")


WAYS = ("wrapped", "transient", "cached")


class Weighted(nn.Module):
    """The same with a parameter."""

    def __init__(self, use):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.use = use

    def forward(self, x, a):
        return self.use(x * self.weight, a)
