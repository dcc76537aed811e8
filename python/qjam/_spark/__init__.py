"""Spark as workers: the driver's side (``driver``, ``context``), and what runs in Spark's Python workers (``task``)."""
