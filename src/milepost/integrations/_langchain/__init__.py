"""What milepost does with LangChain, where it is installed: callbacks, and being a Runnable."""
