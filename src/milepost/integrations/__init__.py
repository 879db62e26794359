"""Bridges to other libraries, imported only where those are."""
