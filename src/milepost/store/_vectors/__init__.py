"""Search by meaning: texts to vectors, and where the vectors are kept."""
