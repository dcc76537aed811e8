"""What runs inside a child interpreter: the loop that answers its slot, and what it needs.

A slot of a worker starts an interpreter and hands it the sources of this folder over a socket; nothing of it need be
installed on the host, and nothing but NumPy is needed beside the standard library. The same modules serve in the
master's own process: :mod:`values` and :mod:`context` mean the same there.
"""
