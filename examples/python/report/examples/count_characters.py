from collections import Counter


def count_characters(params, lines):
    """How often each character is in the lines of a chunk."""
    return Counter("".join(lines))


def reduce(left, right):
    """Two counts as one."""
    return left + right


mapfunc = count_characters
