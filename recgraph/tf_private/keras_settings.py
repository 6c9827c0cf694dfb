"""What Keras reads of its own settings while it computes."""

from __future__ import annotations

import collections
from typing import Any, Final

import keras

# Public functions tell neither the generator of random numbers that is taken where none is given, nor whether there is
# one, nor how objects are named and given seeds.
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import in_stateless_scope as _in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope as _in_symbolic_scope
from keras.src.backend.tensorflow.core import convert_to_tensor as _convert_to_tensor
from keras.src.random.seed_generator import global_seed_generator as _global_seed_generator
from keras.src.random.seed_generator import make_default_seed as _make_default_seed

_NAMES = "object_name_uids"
_GLOBALS = ("dtype_policy", "distribution", "flash_attention", "global_seed_generator")


def keras_settings() -> tuple[Any, ...]:
    """The settings in this thread, to be compared one by one: data by its value, objects by `is`."""
    config = keras.config
    return (
        *(config.floatx(), config.epsilon(), config.image_data_format()),
        *(global_state.get_global_attribute(name) for name in _GLOBALS),
        *_scopes(),
    )


def _scopes() -> tuple[Any, ...]:
    """What is around a call that layers and variables read: what the layer was told that is being called, such as
    whether it is training, and to what dtype variables are cast.
    """
    call = global_state.get_global_attribute("current_call_ctx")
    cast = global_state.get_global_attribute("autocast_scope")
    told = None if call is None else [*((n, v) for n, v in sorted(vars(call).items()) if n != "entry_layer")]
    return told, None if cast is None else [cast.dtype]


def has_generator() -> bool:
    """Whether the generator is there that is taken where none is given."""
    return global_state.get_global_attribute("global_seed_generator") is not None


def name_counts() -> dict[str, int]:
    """How many objects of each kind Keras has named in this thread: `dense_3` is the fourth."""
    return dict(global_state.get_global_attribute(_NAMES) or {})


def set_name_counts(counts: dict[str, int]) -> None:
    """The next object of a kind is named by this count."""
    global_state.set_global_attribute(_NAMES, collections.defaultdict(int, counts))


def count_names(more: dict[str, int]) -> None:
    """So many more objects of each kind have been named."""
    counts = name_counts()
    set_name_counts(counts | {kind: counts.get(kind, 0) + count for kind, count in more.items()})


# What draws the seed of an object that is given none, with Python's generator, and what makes a tensor of a seed.
DRAWING_SEED: Final = _make_default_seed.__code__
MAKING_TENSOR: Final = _convert_to_tensor.__code__
# What gives the generator that all share; makes it where it is not there yet.
SHARING_GENERATOR: Final = _global_seed_generator.__code__


def in_stateless_scope() -> bool:
    """Whether a `keras.StatelessScope` stands in for the values of variables in this thread."""
    return bool(_in_stateless_scope())


def asks_for_specs_only(graph: Any) -> bool:
    """Whether Keras only wants to know shapes and dtypes: nobody runs the graph that it lets layers add to.

    Not within a function that is traced meanwhile: that is kept, and may run.
    """
    return _in_symbolic_scope() and graph.name.startswith("scratch_graph")


def is_in_layer() -> bool:
    """Whether a layer is being called in this thread: those in it then add to the losses that are kept."""
    return global_state.get_global_attribute("current_call_ctx") is not None


def is_training(layer: keras.layers.Layer) -> bool | None:
    """Whether the layers that are called by this one are training; None if nobody has said so."""
    context = global_state.get_global_attribute("current_call_ctx")
    training: bool | None = None if context is None else context.training
    return training


KERAS_MASK = "_keras_mask"


def keras_mask(tensor: Any) -> Any:
    """The mask that a layer of Keras's has left with a tensor for the next one; None where there is none."""
    return getattr(tensor, KERAS_MASK, None)


def set_keras_mask(tensor: Any, mask: Any) -> None:
    """Leaves a mask with a tensor."""
    setattr(tensor, KERAS_MASK, mask)
