"""The JSON of TensorFlow Serving's REST interface: tensors in rows (`instances`) and in columns (`inputs`).

Rows are one object for each instance, or its only value, and all tensors have the same first axis. In columns each
tensor is written as a whole. A string that is no UTF-8 is `{"b64": "..."}`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from recgraph.serve.errors import RefusedRequest

_ROWS, _COLUMNS = "instances", "inputs"
_FIELDS = {"signature_name", _ROWS, _COLUMNS}


def request(body: bytes) -> dict[str, Any]:
    """The object that a request is.

    Raises:
        RefusedRequest: it is none, or has other fields than those of a prediction.
    """
    try:
        found = _DECODER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except RecursionError:
        raise RefusedRequest(400, "the body is nested too deep") from None
    except ValueError as error:
        raise RefusedRequest(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedRequest(400, f"the body is {_kind(found)}, expected an object")
    if unknown := found.keys() - _FIELDS:
        raise RefusedRequest(400, f"unknown fields: {', '.join(map(repr, sorted(unknown)))}, known: {_listed(_FIELDS)}")
    if (_ROWS in found) == (_COLUMNS in found):
        raise RefusedRequest(400, f"the body has to have either {_ROWS!r} or {_COLUMNS!r}")
    if not isinstance(found.get("signature_name", ""), str):
        raise RefusedRequest(400, "'signature_name' is no string")
    return found


def arguments(found: Mapping[str, Any], specs: Mapping[str, tf.TensorSpec]) -> dict[str, np.ndarray]:
    """The arguments of a signature.

    Args:
        found: from `request`.
        specs: what the signature takes, by name.

    Raises:
        RefusedRequest: names, types or shapes are others.
    """
    columns = _columns_of_rows(found[_ROWS], specs) if _ROWS in found else found[_COLUMNS]
    if len(specs) == 1 and not (isinstance(columns, dict) and columns.keys() == specs.keys()):
        columns = dict.fromkeys(specs, columns)
    if not isinstance(columns, dict):
        raise RefusedRequest(400, f"{_COLUMNS!r} is {_kind(columns)}, expected an object with {_listed(specs)}")
    _require_names(columns, specs, f"{_COLUMNS!r}")
    return {name: _array(columns[name], spec, name) for name, spec in specs.items()}


def response(found: Mapping[str, Any], results: Mapping[str, np.ndarray]) -> bytes:
    """The results of a signature in the form that the request has.

    Raises:
        RefusedRequest: they were asked for in rows, and do not have the same first axis.
    """
    columns = {name: _plain(value) for name, value in results.items()}
    is_one = len(columns) == 1
    if _COLUMNS in found:
        return _written({"outputs": next(iter(columns.values())) if is_one else columns})
    heights = {name: value.shape[0] if value.ndim else None for name, value in results.items()}
    if None in heights.values() or len(set(heights.values())) > 1:
        shown = ", ".join(f"{name!r} {list(value.shape)}" for name, value in results.items())
        raise RefusedRequest(400, f"results have different first axes ({shown}): ask with {_COLUMNS!r}")
    rows = zip(*columns.values(), strict=True)
    return _written({"predictions": [row[0] if is_one else dict(zip(columns, row, strict=True)) for row in rows]})


def error(message: str) -> bytes:
    """What is said of a request without a result."""
    return _written({"error": message})


def _written(what: Any) -> bytes:
    return _ENCODER.encode(what).encode()


def _columns_of_rows(rows: Any, specs: Mapping[str, tf.TensorSpec]) -> dict[str, list[Any]]:
    if not isinstance(rows, list):
        raise RefusedRequest(400, f"{_ROWS!r} is {_kind(rows)}, expected a list")
    if len(specs) == 1:
        (name,) = specs
        return {name: [row[name] if isinstance(row, dict) and row.keys() == {name} else row for row in rows]}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RefusedRequest(400, f"{_ROWS!r}[{number}] is {_kind(row)}, expected an object with {_listed(specs)}")
        _require_names(row, specs, f"{_ROWS!r}[{number}]")
    return {name: [row[name] for row in rows] for name in specs}


def _require_names(given: Mapping[str, Any], specs: Mapping[str, Any], where: str) -> None:
    if given.keys() != specs.keys():
        raise RefusedRequest(400, f"{where} has {_listed(given)}, expected {_listed(specs)}")


def _array(value: Any, spec: tf.TensorSpec, name: str) -> np.ndarray:
    """A value as a tensor of a certain type and shape."""
    shape: list[int] = []
    flat = [value]
    for _ in range(spec.shape.rank):
        if not all(isinstance(one, list) for one in flat):
            _refuse(name, spec, next(one for one in flat if not isinstance(one, list)))
        if len({len(one) for one in flat}) > 1:
            raise RefusedRequest(400, f"{name!r} has lists of different lengths")
        shape.append(len(flat[0]) if flat else 0)
        flat = [each for one in flat for each in one]
    if not spec.shape.is_compatible_with(shape):
        raise RefusedRequest(400, f"{name!r} has the shape {shape}, expected {spec.shape}")
    read = _reader(spec.dtype)
    made = np.empty(len(flat), object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)
    for place, one in enumerate(flat):
        try:
            made[place] = read(one)
        except (TypeError, ValueError, OverflowError):
            _refuse(name, spec, one)
    return made.reshape(shape)


@functools.cache
def _reader(dtype: tf.DType) -> Callable[[Any], Any]:
    """What reads a value of a type; it raises TypeError, ValueError or OverflowError for another one."""
    if dtype == tf.string:
        return _text
    if dtype.is_bool:
        return lambda one: _of_type(one, bool)
    if dtype.is_integer:
        return lambda one: _of_type(one, int)
    return lambda one: float(_of_type(one, int, float))


def _of_type(one: Any, *types: type) -> Any:
    if type(one) not in types:  # True is an int to isinstance
        raise TypeError
    return one


def _text(one: Any) -> bytes:
    if isinstance(one, dict) and one.keys() == {"b64"}:
        return base64.b64decode(one["b64"], validate=True)
    return _of_type(one, str).encode()


def _plain(value: np.ndarray) -> Any:
    """Lists of what JSON has."""
    if value.dtype != object:
        return value.tolist()
    flat = np.empty(value.size, object)
    flat[:] = [_string(one) for one in value.ravel()]
    return flat.reshape(value.shape).tolist()


def _string(one: bytes) -> Any:
    try:
        return one.decode()
    except UnicodeDecodeError:
        return {"b64": binascii.b2a_base64(one, newline=False).decode()}


def _refuse(name: str, spec: tf.TensorSpec, found: Any) -> NoReturn:
    axes = "".join("[" + ("" if axis is None else str(axis)) + "]" for axis in spec.shape)
    raise RefusedRequest(400, f"{name!r} has {_kind(found)} in it, expected {spec.dtype.name}{axes}")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_ENCODER = json.JSONEncoder(ensure_ascii=False)
_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _kind(value: Any) -> str:
    """A JSON value in an error: short, and what it is."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null", bool: "a truth value"}
    if type(value) in names:
        return names[type(value)]
    return f"the number {str(value)[:20]}"


def _listed(names: Any) -> str:
    return ", ".join(map(repr, sorted(names))) or "nothing"
