"""Every clause can fail: a saver that is broken in one place is found out by it."""

from __future__ import annotations

import pytest
from mutants import MUTANTS

from milepost.testing import all_clauses
from milepost.testing._kit.checking import Subject

CLAUSES = {clause.name: clause for clause in all_clauses()}


def test_every_clause_has_a_broken_saver():
    assert list(MUTANTS.keys() - CLAUSES.keys()) == []
    assert list(CLAUSES.keys() - MUTANTS.keys()) == []


@pytest.mark.parametrize("name", CLAUSES)
def test_a_clause_passes_on_the_correct_saver_and_fails_on_the_broken_one(name):
    clause, mutant = CLAUSES[name], MUTANTS[name]
    correct = Subject(mutant.correct, mutant.persistent).check(clause, mutant.colour)
    assert (correct.status, correct.reason) == ("passed", "")
    broken = Subject(mutant.broken, mutant.persistent).check(clause, mutant.colour)
    assert broken.status == "failed"
    assert isinstance(broken.error, mutant.raises), broken.reason
    assert broken.reason.startswith(clause.about)


def test_a_clause_is_a_sentence_with_a_name():
    for clause in CLAUSES.values():
        assert clause.about.endswith("."), clause.name
        assert clause.group
