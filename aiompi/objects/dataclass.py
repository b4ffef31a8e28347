"""Encoding of dataclasses: the name of the class, then the values of its fields."""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from aiompi.objects.type_tags import InexpressibleError

_DATACLASS_STATE_METHODS: Final = frozenset({"_dataclass_getstate", "_dataclass_setstate"})
_OBJECT_GETSTATE: Final = object.__getstate__


class _Layout(NamedTuple):
    reference: str
    names: tuple[str, ...]
    slotted: bool


_layouts: WeakKeyDictionary[type, _Layout | None] = WeakKeyDictionary()


def state(obj: Any) -> tuple[str, list[Any]]:
    """Return the state of an instance.

    Returns:
        The class of the instance as "module:qualname", and the values of its fields, in order.

    Raises:
        InexpressibleError: the instance has state besides its fields, or its class customizes pickling.
    """
    cls = type(obj)
    layout = _layout(cls)
    if layout is None or not _is_found(layout.reference, cls):
        raise InexpressibleError(cls, "that is not found by its name, or has state besides its fields")
    if layout.slotted:
        try:
            return layout.reference, [getattr(obj, name) for name in layout.names]
        except AttributeError:
            raise InexpressibleError(cls, "with an unset field") from None
    attributes = obj.__dict__
    if attributes.keys() != set(layout.names):
        raise InexpressibleError(cls, "with attributes that are not its fields")
    return layout.reference, [attributes[name] for name in layout.names]


def restore(reference: str, values: Sequence[Any], imports: bool) -> Any:
    """Return an instance with a given state. As in unpickling, __init__ and __post_init__ do not run.

    Args:
        reference: "module:qualname"; the class may be defined in another module.
        values: values of the fields, in order.
        imports: True if the module may be imported; otherwise it must be imported already.

    Raises:
        ValueError: there is no such dataclass here, or its fields differ.
        ImportError: the module cannot be imported.
    """
    cls = _find(reference, imports=imports)
    layout = _layout(cls) if isinstance(cls, type) else None
    if layout is None:
        raise ValueError(f"{reference} is not a dataclass here; the module must be the same on all ranks")
    if len(values) != len(layout.names):
        raise ValueError(
            f"{reference} has {len(layout.names)} fields here and {len(values)} at the sender; "
            "the module must be the same on all ranks"
        )
    instance = object.__new__(cls)
    if not layout.slotted:
        instance.__dict__.update(zip(layout.names, values, strict=True))
        return instance
    for name, value in zip(layout.names, values, strict=True):
        object.__setattr__(instance, name, value)
    return instance


def _layout(cls: type) -> _Layout | None:
    try:
        return _layouts[cls]
    except KeyError:
        layout = _layouts[cls] = _inspect(cls)
        return layout


def _inspect(cls: type) -> _Layout | None:
    if "__dataclass_fields__" not in cls.__dict__ or _customizes_pickling(cls):
        return None
    names = tuple(field.name for field in dataclasses.fields(cls))
    slots = _slots(cls)
    slotted = cls.__dictoffset__ == 0
    if slots != (set(names) if slotted else set()):
        return None
    return _Layout(f"{cls.__module__}:{cls.__qualname__}", names, slotted)


def _customizes_pickling(cls: type) -> bool:
    """Return True if pickle would do more than copy the state of an instance."""
    if cls in copyreg.dispatch_table or hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__"):
        return True
    if any(getattr(cls, name) is not getattr(object, name) for name in ("__new__", "__reduce__", "__reduce_ex__")):
        return True
    # The methods that dataclasses add to frozen classes with slots are equivalent to the defaults.
    own = (getattr(cls, name, None) for name in ("__getstate__", "__setstate__"))
    names = {getattr(method, "__name__", "") for method in own if method not in (None, _OBJECT_GETSTATE)}
    return not names <= _DATACLASS_STATE_METHODS


def _slots(cls: type) -> set[str]:
    slots: set[str] = set()
    for base in cls.__mro__:
        own = base.__dict__.get("__slots__", ())
        slots.update([own] if isinstance(own, str) else own)
    return slots - {"__dict__", "__weakref__"}


def _is_found(reference: str, cls: type) -> bool:
    # Looked up for every message, as in pickle: in a notebook the class may have been redefined.
    try:
        return _find(reference, imports=False) is cls
    except ValueError:
        return False


def _find(reference: str, *, imports: bool) -> Any:
    module_name, _, qualname = reference.partition(":")
    module = importlib.import_module(module_name) if imports else sys.modules.get(module_name)
    if not isinstance(module, ModuleType):
        raise ValueError(f"module {module_name!r} is not imported here")
    found: Any = module
    for name in qualname.split("."):
        # Looked up without getattr: a name from the network must not run code of the module or class.
        if not isinstance(found, (ModuleType, type)) or name not in vars(found):
            raise ValueError(f"module {module_name!r} has no class {qualname!r}")
        found = vars(found)[name]
    return found
