"""What savers and the engine share: records, the step contract, rules for names and threads."""
