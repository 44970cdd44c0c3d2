"""Docstrings of the public interface: complete, in Google style, with summaries that state a fact.

ruff checks the form of all docstrings (rules D in pyproject.toml), but cannot know which names are public.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import pytest

FACADES = (
    *("shuffledp", "shuffledp.bounds", "shuffledp.collection", "shuffledp.mechanisms.base", "shuffledp.metric"),
    *("shuffledp.spark", "shuffledp.tasks", "shuffledp.testing", "shuffledp.tradeoff"),
)
MODULES = {
    "shuffledp.privacy.dp_accounting": ("ShuffledAccountant", "ShuffledDpEvent", "from_pld"),
    "shuffledp.service.tokens": ("Admission", "Issuer", "IssuerKey", "PrivateTokens", "TokenRequest"),
}
"""Public names of modules that are no façades."""
QUESTION = re.compile(r"(What|How|Whether|Where|Who|Whom|Whose|Which|When|Why)\b")
RESULT = re.compile(r"(Returns|Yields)\b")
SECTION = re.compile(r"^(\w[\w ]*):\s*$", re.MULTILINE)
ENTRY = re.compile(r"^    \*{0,2}(\w+)(?: \([^)]*\))?:", re.MULTILINE)
RAISES_ONLY = ("NoReturn", "Never")


def public_names(facade: str) -> list[str]:
    """Returns the names that a façade exports: its list, or the names that it imports as themselves."""
    module = importlib.import_module(facade)
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def exported() -> dict[str, Any]:
    """Returns every exported class and function, once, by the name of its definition."""
    listed = {facade: public_names(facade) for facade in FACADES} | MODULES
    things = [getattr(importlib.import_module(path), name) for path, names in listed.items() for name in names]
    documented = [thing for thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    return {f"{thing.__module__}.{thing.__qualname__}": thing for thing in documented}


EXPORTED = exported()


def is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] in ("shuffledp", "shuffledp_verify")


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields the public methods and properties of a class that are defined in our packages, unwrapped."""
    for name, attribute in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        member = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
        member = member.fget if isinstance(member, property) else member
        member = member.func if isinstance(member, cached_property) else member
        if isinstance(member, FunctionType) and is_ours(member):
            yield name, attribute


def documentation(kind: type, name: str) -> list[str]:
    """Returns the docstrings of a member, from the class itself upwards."""
    texts = [
        inspect.cleandoc(getattr(vars(base)[name], "__doc__", None) or "")
        for base in kind.__mro__
        if name in vars(base)
    ]
    return [text for text in texts if text]


def sections(text: str) -> dict[str, str]:
    """Returns the sections of a docstring by their titles."""
    parts = SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters that a caller passes."""
    names = [one for one in inspect.signature(function).parameters if one not in ("self", "cls", "mcs")]
    return [name for name in names if not name.startswith("_")]


def returns_something(function: Callable[..., Any]) -> bool:
    annotation = str(inspect.signature(function).return_annotation)
    return annotation not in ("None", "<class 'inspect._empty'>", *RAISES_ONLY)


def complaints_of_function(function: Callable[..., Any], texts: Sequence[str]) -> Iterator[str]:
    """Yields the gaps in the docstring of a function; those of the overridden methods fill them."""
    described = [name for text in texts for name in ENTRY.findall(sections(text).get("Args", ""))]
    own = ENTRY.findall(sections(texts[0]).get("Args", "")) if texts else []
    yield from (f"Args lacks {name}" for name in parameters(function) if name not in described)
    yield from (f"Args has {name}, which is no parameter" for name in own if name not in parameters(function))
    stated = any(RESULT.match(text) or {"Returns", "Yields"} & set(sections(text)) for text in texts)
    if returns_something(function) and not stated:
        yield "has no Returns"


def complaints_of_text(text: str) -> Iterator[str]:
    if not text:
        yield "has no docstring"
    elif QUESTION.match(text):
        yield f"opens with a question word: {text.splitlines()[0]}"


def constructor_parameters(kind: type) -> list[str]:
    """Returns the parameters of the constructor of a class that users instantiate."""
    if inspect.isabstract(kind) or issubclass(kind, enum.Enum | BaseException):
        return []
    return parameters(kind)


def complaints_of_class(kind: type) -> Iterator[str]:
    text = inspect.cleandoc(kind.__doc__ or "")
    yield from complaints_of_text(text)
    described = [
        name
        for base in kind.__mro__
        for name in ENTRY.findall(sections(inspect.cleandoc(base.__doc__ or "")).get("Args", ""))
    ]
    if text:
        yield from (f"Args lacks {name}" for name in constructor_parameters(kind) if name not in described)
    for name, attribute in public_members(kind):
        texts = documentation(kind, name)
        yield from (f"{name} {complaint}" for complaint in complaints_of_text(texts[0] if texts else ""))
        if texts and not isinstance(attribute, property | cached_property):
            function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
            yield from (f"{name} {complaint}" for complaint in complaints_of_function(function, texts))


@pytest.mark.parametrize("name", EXPORTED)
def test_a_public_name_is_documented(name: str) -> None:
    """A summary, every parameter, and the result; of a class also its public methods and properties."""
    thing = EXPORTED[name]
    if inspect.isclass(thing):
        assert list(complaints_of_class(thing)) == []
    else:
        text = inspect.cleandoc(thing.__doc__ or "")
        assert [*complaints_of_text(text), *complaints_of_function(thing, [text])] == []
