"""What the kit raises, besides the errors of milepost itself.

MilepostError
└── ClauseFailed (AssertionError)   a saver does not do what a clause of the contract says
ConnectionError
└── InjectedFault                   a failure that a FaultySaver was asked for
"""

from __future__ import annotations

from milepost.errors import MilepostError


class ClauseFailed(MilepostError, AssertionError):
    """The saver does not keep a clause. The message says what was expected and what was found."""


class InjectedFault(ConnectionError):
    """The storage failed, because a test wanted it to.

    It is no MilepostError: a saver's storage fails with errors of its own, and so does this.
    """
