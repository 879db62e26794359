"""Measures milepost beside LangGraph and beside the physical limit, in one run.

python -m bench            everything
python -m bench steps      one group
python -m bench --list     what there is
"""
