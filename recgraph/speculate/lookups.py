"""What a class has under a name, for as long as it has it: methods that operators and builtins ask for may be patched,
added and deleted as others may.
"""

from __future__ import annotations

import types
from typing import Any, Final

from recgraph.speculate import known
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.script import Script

# What a class gives as it holds it, so that asking the class itself is enough.
_GIVEN_AS_HELD: Final = (types.FunctionType, property, types.WrapperDescriptorType, types.MemberDescriptorType)


def held_by(kind: type, name: str) -> Any:
    """What a class or the first of its bases holds under a name, unbound; None where none does."""
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def own(script: Script, kind: type, name: str, where: str) -> Any:
    """What a class itself holds under a name, its bases left aside, which is assumed to stay so."""
    found = kind.__dict__.get(name)
    if known.is_users_type(kind):
        condition = f"{script.constant(kind)}.__dict__.get({name!r}) is {script.constant(found)}"
        script.assume(condition, assumption("identity", f"{kind.__name__}.{name} is as it was", where))
    return found


def of_class(script: Script, kind: type, name: str, where: str) -> Any:
    """What `held_by` gives, which is assumed to stay so where the class is a part of the user's program."""
    found = held_by(kind, name)
    if any(known.is_users_type(base) for base in kind.__mro__[:-1]):
        owner, expected = script.constant(kind), script.constant(found)
        if found is None and not hasattr(kind, name):
            condition = f"not hasattr({owner}, {name!r})"
        elif isinstance(found, _GIVEN_AS_HELD) and getattr(kind, name, None) is found:
            condition = f"getattr({owner}, {name!r}, None) is {expected}"
        else:
            script.scope["held_by"] = held_by
            condition = f"held_by({owner}, {name!r}) is {expected}"
        script.assume(condition, assumption("identity", f"{kind.__name__}.{name} is as it was", where))
    return found
