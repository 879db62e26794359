"""`python -m milepost.integrations.langgraph program.py …`: a LangGraph program on milepost."""

import sys

from milepost.integrations.langgraph._alias import run_program

if len(sys.argv) < 2 or sys.argv[1:] == ["-m"] or sys.argv[1] in ("-h", "--help"):
    sys.exit("usage: python -m milepost.integrations.langgraph (program.py | -m module) ...")
run_program(sys.argv[1:])
