"""One library's savers and stores for the other's graphs."""
