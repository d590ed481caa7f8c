"""Experiments: one file each, one result each, rebuilt by ``minitxl figures``."""
