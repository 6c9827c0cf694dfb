"""Elements that were taken from an iterator of `tf.data` and are given back: it cannot go back itself."""

from __future__ import annotations

import collections
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.dataset_ops import NumpyIterator
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

# What every way of taking an element in Python goes through; an iterator's own attribute comes before the method.
_TAKE, _TAKE_OPTIONAL = "_next_internal", "get_next_as_optional"


class _Returned:
    """In place of an iterator's method, as long as there are elements that were given back."""

    def __init__(self, iterator: Any) -> None:
        self.elements: collections.deque[Any] = collections.deque()
        self._iterator = weakref.ref(iterator)

    def take(self) -> Any:
        """The first of them."""
        if not tf.executing_eagerly():
            raise RuntimeError(
                "this iterator has elements that a call took and gave back since it failed; take them with next(), "
                "outside of tf.function, first"
            )
        element = self.elements.popleft()
        iterator = self._iterator()
        if not self.elements and iterator is not None:
            for name in (_TAKE, _TAKE_OPTIONAL):
                vars(iterator).pop(name, None)
        return element

    def take_optional(self) -> Any:
        """Returns the same as an optional."""
        return tf.experimental.Optional.from_value(self.take())


def is_iterator(value: Any) -> bool:
    """Whether a value is an iterator over a dataset, and exactly that."""
    return type(value) is OwnedIterator


# Iterators of Python's that hand elements on: `__reduce__` says what each is made of.
_HANDING_ON = (enumerate, zip)
DATASETS = (tf.data.Dataset, OwnedIterator, NumpyIterator)


def goes_through_dataset(value: Any) -> bool:
    """Whether what a loop goes through is a dataset, an iterator over one, or hands on the elements of one.

    Args:
        value: anything; bars that show progress have what they go through as `iterable`.
    """
    if type(value) in _HANDING_ON:
        return any(map(goes_through_dataset, value.__reduce__()[1]))
    if issubclass(type(value), DATASETS):
        return True
    attributes = object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}
    return issubclass(type(attributes.get("iterable")), DATASETS)


def give_back(iterator: Any, element: Any) -> None:
    """Makes an element, which was the last one that was taken, the next one again."""
    held = vars(iterator)
    if _TAKE not in held:
        returned = _Returned(iterator)
        held[_TAKE], held[_TAKE_OPTIONAL] = returned.take, returned.take_optional
    held[_TAKE].__self__.elements.appendleft(element)
