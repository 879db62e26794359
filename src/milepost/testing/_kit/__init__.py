"""How the clauses of the saver contract are run and reported."""
