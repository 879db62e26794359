"""OpenTelemetry that keeps what it gets in memory."""

from collections.abc import Iterator

import pytest
from recorded import Recorded

from milepost.observe import uninstrument


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """All runs of the test are traced; their spans and measurements are here."""
    found = Recorded()
    found.instrument()
    yield found
    uninstrument()
    found.close()
