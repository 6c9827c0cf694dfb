"""Between TensorFlow's graphs and terms: the only part of this room that imports TensorFlow."""
