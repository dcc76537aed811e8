"""Wrong uses of the package: type checkers must complain about every line with the mark."""

from __future__ import annotations

from qjam import DataSet, Master, RemoteWorker
from qjam.dataset import ListDataSet

Master(5)  # wrong
Master("local:2", sed=1)  # wrong
Master("local:2", seed="one")  # wrong
RemoteWorker(22)  # wrong
m = Master("local:2")
m.run()  # wrong
m.run(len, None, [1], timeout="soon")  # wrong
m.run(len, None, [1], on_round=5)  # wrong
m.runn(len)  # wrong
m.submit(len).results()  # wrong
m.hold(5, [1])  # wrong
m.last_round.total  # wrong
DataSet([1], slice_size="three")  # wrong
ListDataSet([1]).slice("first")  # wrong
