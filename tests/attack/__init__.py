"""A checker in the manner of Jepsen: processes that do random things to one database at once.

    PYTHONPATH=tests python -m attack --place postgres --minutes 60 --seed 7

Workers (`worker.py`) do operations (`operations.py`, `store_operations.py`) on a place
(`places.py`) and record each call before and after it (`history.py`). Meanwhile the parent
(`campaign.py`) does harm (`faults.py`). At quiet moments it looks at what is there, and checks that
everything recorded fits together (`checks.py`, `store_checks.py`). Known bugs that are put back
(`plants.py`) show that the checks can find something.

Some operations judge by themselves, because what must come of them is known: they damage rows of a
database of their own (`vandal.py`, `aside.py`), work where a saver cannot (`surroundings.py`), go
to the ends of what is promised (`limits.py`), ask a store odd things (`store_probes.py`), or need a
process to themselves (`children.py`). They note what was wrong, and the checks report it.

What `store_operations.py` has for the workers and `store_checks.py` for the parent:

    SETTINGS                      what `place.store(**SETTINGS)` is opened with for each worker
    OPERATIONS                    a list of `operation.Operation`; all are about the store
    observe(context)              an operation like the others, done by one worker while all pause
    Checks().violations(events)   yields `Violation`s; `events` is a round, from the observation
                                  before it up to the one that ends it, both included

and the same names, about threads, in `operations.py` and `checks.py`. A check may keep what it has
to know of earlier rounds: `violations` is a method of a `Checks()` that lives as long as the
campaign.
"""
