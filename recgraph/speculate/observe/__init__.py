"""What is known of a program before it is converted: its source, what its eager calls have seen, whose code it is.

`instrument` compiles the first calls from the same source with a call around each expression of interest, `profile`
keeps what was seen. Nothing here knows of graphs; everything above reads it.
"""
