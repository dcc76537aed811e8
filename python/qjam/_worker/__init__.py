"""The code that runs inside a child interpreter: the loop that answers its slot, and what the loop needs.

A slot of a worker starts an interpreter and sends it the sources of this folder over a socket. Nothing of qjam has to be installed
on the host, and only NumPy is needed besides the standard library. The master's process uses :mod:`values` and :mod:`context` as
well.
"""
