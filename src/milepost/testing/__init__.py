"""Tools for those who write savers, or test programs that depend on one.

`saver_tests` and `check_saver` run the suite that says what a saver has to do; `FaultySaver`
makes any saver fail when a test wants it to.
"""

from milepost.testing._kit.checking import Outcome, Report, check_saver
from milepost.testing._kit.clauses import Clause, all_clauses
from milepost.testing._kit.errors import ClauseFailed, InjectedFault
from milepost.testing._kit.faults import (
    Fault,
    FaultySaver,
    SaverCall,
    delay,
    fail_after,
    fail_before,
)
from milepost.testing._kit.pytest_tests import saver_tests

__all__ = [
    "Clause",
    "ClauseFailed",
    "Fault",
    "FaultySaver",
    "InjectedFault",
    "Outcome",
    "Report",
    "SaverCall",
    "all_clauses",
    "check_saver",
    "delay",
    "fail_after",
    "fail_before",
    "saver_tests",
]
