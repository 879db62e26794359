"""Tools for those who write savers, or test programs that depend on one.

`saver_tests` and `check_saver` run the suite that says what a saver has to do; `FaultySaver`
makes any saver fail when a test wants it to.
"""

from milepost.testing._kit.checking import Outcome, Report, check_saver, saver_tests
from milepost.testing._kit.clauses import Clause, ClauseFailed, all_clauses
from milepost.testing._kit.faults import (
    Fault,
    FaultySaver,
    InjectedFault,
    SaverCall,
    delay,
    fail_after,
    fail_before,
)

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
