"""Public imperative programs, as other people wrote them, run eagerly and in the ways in which they may be graphs."""
