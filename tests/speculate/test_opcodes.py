"""Every opcode of CPython 3.11: the program of the corpus that exercises the rule for it, or why it runs eagerly.

In the spirit of table 3.2 of the thesis. That the programs are converted, or are not, is what `test_corpus.py` checks.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator

import pytest

from tests.speculate import checking, corpus

PROGRAMS = corpus.load()

# A function's source is what is converted; the opcodes of one version say that no construct was forgotten.
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the table is that of CPython 3.11")

# Opcodes that are converted, by the program that has them. Jumps are the branches and loops that they are made of.
CONVERTED = {
    "every_operator_on_numbers": "BINARY_OP COMPARE_OP UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE",
    "every_augmented_assignment": "COPY LOAD_CONST STORE_ATTR SWAP",
    "a_training_step": """
        BEFORE_WITH CALL COPY_FREE_VARS LOAD_ATTR LOAD_FAST LOAD_GLOBAL LOAD_METHOD POP_TOP PRECALL RESUME RETURN_VALUE
        STORE_FAST
    """,
    "and_or_not_of_tensors": "JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP POP_JUMP_FORWARD_IF_TRUE",
    "a_branch_flips": "JUMP_FORWARD POP_JUMP_FORWARD_IF_FALSE",
    "a_while_loop_of_tensors": "POP_JUMP_BACKWARD_IF_TRUE",
    "a_while_loop_that_breaks": "NOP",
    "an_argument_becomes_none": "POP_JUMP_FORWARD_IF_NOT_NONE",
    "a_chain_of_objects": "POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE",
    "a_comprehension_without_none": "POP_JUMP_BACKWARD_IF_NONE",
    "comprehensions": """
        BUILD_STRING FORMAT_VALUE FOR_ITER GET_ITER JUMP_BACKWARD LIST_APPEND LOAD_CLOSURE LOAD_DEREF MAKE_CELL
        MAKE_FUNCTION MAP_ADD POP_JUMP_BACKWARD_IF_FALSE UNPACK_SEQUENCE
    """,
    "all_comprehensions": "BUILD_LIST BUILD_MAP BUILD_TUPLE SET_ADD STORE_DEREF",
    "generator_expressions": "RETURN_GENERATOR YIELD_VALUE",
    "a_generator_that_delegates": "GET_YIELD_FROM_ITER",
    "slices_of_everything": "BINARY_SUBSCR BUILD_SLICE DELETE_SUBSCR LIST_EXTEND STORE_SUBSCR",
    "unpacking": "DICT_UPDATE EXTENDED_ARG LIST_TO_TUPLE UNPACK_EX",
    "methods_of_a_set": "BUILD_SET SET_UPDATE",
    "a_list_that_holds_itself_twice": "IS_OP",
    "a_key_appears": "CONTAINS_OP",
    "deleting": "DELETE_FAST",
    "a_closure_loses_a_name": "DELETE_DEREF",
    "attributes_by_name": "DELETE_ATTR",
    "a_global_is_deleted": "DELETE_GLOBAL STORE_GLOBAL",
    "every_kind_of_argument": "BUILD_CONST_KEY_MAP CALL_FUNCTION_EX DICT_MERGE KW_NAMES",
    "a_function_made_is_returned": "PUSH_NULL",
    "matching_values": "GET_LEN MATCH_CLASS MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE",
}
# Opcodes of programs whose graph has the other ways only: what raises or handles an exception is an assumption that
# does not hold, and the call is made eagerly.
ASSUMED_AWAY = {
    "assertions_hold_and_fail": "LOAD_ASSERTION_ERROR RAISE_VARARGS",
    "try_except_else": "CHECK_EXC_MATCH POP_EXCEPT PUSH_EXC_INFO RERAISE",
    "an_exception_group": "CHECK_EG_MATCH PREP_RERAISE_STAR",
    "a_users_context_manager": "WITH_EXCEPT_START",
}
# Opcodes of what is not converted.
EAGER = {
    "coroutines": """
        ASYNC_GEN_WRAP BEFORE_ASYNC_WITH END_ASYNC_FOR GET_AITER GET_ANEXT GET_AWAITABLE JUMP_BACKWARD_NO_INTERRUPT SEND
    """,
    "an_import_inside": "IMPORT_FROM IMPORT_NAME",
    "a_class_inside": "DELETE_NAME LOAD_BUILD_CLASS LOAD_CLASSDEREF LOAD_NAME SETUP_ANNOTATIONS STORE_NAME",
}
NEVER_IN_A_FUNCTION = {
    "CACHE": "room beside an instruction, which the interpreter writes to",
    "IMPORT_STAR": "a syntax error in functions",
    "PRINT_EXPR": "of the interactive prompt",
}


def opcodes_of(code: types.CodeType) -> Iterator[str]:
    """The opcodes of a function and of what is defined in it."""
    yield from (instruction.opname for instruction in dis.get_instructions(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from opcodes_of(constant)


def rows() -> list[tuple[str, str]]:
    """Opcode and program."""
    tables = (CONVERTED, ASSUMED_AWAY, EAGER)
    return [(opcode, name) for table in tables for name, opcodes in table.items() for opcode in opcodes.split()]


def test_every_opcode_has_one_entry() -> None:
    """A new version of Python brings opcodes that somebody has to think about."""
    named = [opcode for opcode, _ in rows()] + list(NEVER_IN_A_FUNCTION)
    assert sorted(named) == sorted(set(named))
    assert set(named) == set(dis.opmap)


@pytest.mark.parametrize(("opcode", "name"), rows())
def test_the_program_has_the_opcode(opcode: str, name: str) -> None:
    """Else it would show nothing about it."""
    step, _, _ = PROGRAMS[name].make()
    functions = [step.__code__, *(getattr(cell.cell_contents, "__code__", None) for cell in step.__closure__ or ())]
    assert any(opcode in opcodes_of(code) for code in functions if code is not None)


@pytest.mark.parametrize("name", [*CONVERTED, *ASSUMED_AWAY, *EAGER])
def test_the_program_does_what_the_table_says(name: str) -> None:
    """What is said to be converted is; what is said to run eagerly does, with a reason."""
    assert PROGRAMS[name].converted == (name not in EAGER)
    program = PROGRAMS[name]
    checking.check_speculated(program, checking.run_eagerly(program))
