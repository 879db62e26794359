"""The commands of `milepost` that need its extra `cli`."""
