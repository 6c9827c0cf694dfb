"""What libraries define: built-ins, the standard library, TensorFlow, Keras and NumPy, in one table of functions.

A function that has no row in `rules.SPECIAL` is called by the general rule for its library, or refused.
"""
