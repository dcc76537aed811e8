def newton_sqrt(n, dataset):
    """The square root of n by Newton's method. The data set is the first guess."""
    guess = dataset[0]
    while abs(guess * guess - n) > 1e-12 * n:
        guess = (guess + n / guess) / 2.0
    return guess


mapfunc = newton_sqrt
