#!/usr/bin/env python3
"""Computes the polynomial coefficients that this directory's Rust files contain.

    python3 -m venv env && env/bin/pip install mpmath
    env/bin/python fit.py               # coefficients
    env/bin/python fit.py pieces        # the tables of functions in pieces
    env/bin/python fit.py special       # coefficients of inverse and special functions
    env/bin/python fit.py points        # tests/fuzz/src/ulp/points.txt

Each polynomial is the best approximation in the sense of the largest weighted
error (Remez exchange, in 120 digits), with its coefficients then rounded to the
type. Both errors are printed, in exact arithmetic; what evaluation adds is measured
by the sweeps in `tests/fuzz/src/ulp`. The output depends on nothing but this file.
"""

from mpmath import mp, mpf
import mpmath
import math
import random
import struct
import sys

mp.dps = 120


def single(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def double(x):
    return mpf(float(x))


def solve(f, weight, powers, low, high):
    """Coefficients c of sum(c[i] * x**powers[i]) ~ f with equal weighted extrema."""
    n = len(powers)
    nodes = [
        (low + high) / 2 + (high - low) / 2 * mpmath.cos(mpmath.pi * i / n) for i in range(n + 1)
    ]
    nodes.reverse()
    count = 16 * n + 1
    grid = [
        (low + high) / 2 - (high - low) / 2 * mpmath.cos(mpmath.pi * i / (count - 1))
        for i in range(count)
    ]
    values = [(x, f(x), weight(x)) for x in grid]
    coefficients = None
    for _ in range(30):
        a = mpmath.matrix(n + 1, n + 1)
        b = mpmath.matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for j, p in enumerate(powers):
                a[i, j] = x**p
            a[i, n] = (-1) ** i / weight(x)
            b[i] = f(x)
        solution = mpmath.lu_solve(a, b)
        coefficients, level = [solution[j] for j in range(n)], abs(solution[n])

        def error(x, fx, w):
            return (sum(c * x**p for c, p in zip(coefficients, powers)) - fx) * w

        errors = [(x, error(x, fx, w)) for x, fx, w in values]
        # Extrema of alternating sign, at least n + 1 of them.
        runs = []
        for x, e in errors:
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (x, e)
            else:
                runs.append((x, e))
        while len(runs) > n + 1:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < n + 1:
            break
        worst = max(abs(e) for _, e in runs)
        nodes = [x for x, _ in runs]
        if worst < level * mpf("1.001"):
            break
    return coefficients


def fit(name, f, weight, powers, low, high, rounding):
    """Prints rounded coefficients for `powers`, lowest first, and returns them."""
    low, high, powers = mpf(low), mpf(high), list(powers)
    exact = solve(f, weight, powers, low, high)
    rounded = [rounding(c) for c in exact]

    def worst(coefficients):
        errors = []
        for i in range(1001):
            x = low + (high - low) * i / 1000
            errors.append(abs((sum(c * x**p for c, p in zip(coefficients, powers)) - f(x)) * weight(x)))
        return float(mpmath.log(max(errors), 2))

    print(f"{name}: error 2^{worst(exact):.2f}, rounded 2^{worst(rounded):.2f}")
    for p, c in zip(powers, rounded):
        print(f"    x^{p}: {float(c)!r}")
    return rounded


def series(f, terms, x):
    """f near 0 by its Taylor series, where the closed form cancels."""
    return sum(c * x**k for k, c in enumerate(terms))


LN2 = mpmath.log(2)


def parts(name, value, bits, rounding):
    """A constant as a sum of floats, all but the last with few bits."""
    print(f"{name}:")
    rest = value
    for b in bits:
        if b:
            e = mpmath.floor(mpmath.log(abs(rest), 2)) - b + 1
            part = mpmath.nint(rest / mpf(2) ** e) * mpf(2) ** e
        else:
            part = rounding(rest)
        print(f"    {float(part)!r}")
        rest -= part


def exp_tail(x):
    """(exp(x) - 1 - x) / x^2"""
    if abs(x) < mpf("1e-25"):
        return series(None, [1 / mpmath.factorial(k + 2) for k in range(8)], x)
    return (mpmath.exp(x) - 1 - x) / x**2


def log_tail(x):
    """(log(1 + x) - x + x^2/2) / x^3"""
    if abs(x) < mpf("1e-25"):
        return series(None, [(-1) ** k / mpf(k + 3) for k in range(8)], x)
    return (mpmath.log1p(x) - x + x**2 / 2) / x**3


def near(f, x):
    """f at x, or just beside 0, where closed forms are 0/0 but continuous."""
    return f(x if abs(x) > mpf("1e-40") else mpf("1e-40"))


def relative(factor, f, x):
    """How much an error of the tail, times `factor`, counts relative to f."""
    x = x if abs(x) > mpf("1e-40") else mpf("1e-40")
    return abs(factor(x) / f(x))


def tail(f, terms, factor):
    """(f(x) - the leading terms) / factor(x), continued to 0."""
    return lambda x: near(lambda x: (f(x) - terms(x)) / factor(x), x)


def odd(f, lead):
    """(f(x)/x - lead) / x^2 as a function of z = x^2."""
    return tail(lambda z: f(mpmath.sqrt(z)) / mpmath.sqrt(z), lambda z: lead, lambda z: z)


def ends():
    """Where the 32 pieces of tanh begin, and where the last one ends.

    Piece i has the x whose sum with START has an exponent and three bits of significand
    that are i more than those of START: an eighth of an octave each.
    """
    e, k = mpf("0.5"), 2
    for _ in range(33):
        yield max(e * (8 + k) / 8 - START, mpf(0))
        e, k = (2 * e, 0) if k == 7 else (e, k + 1)


START = mpf("0.65625")


def piece(f, low, high, centre):
    """[c0, .. c4] around a centre, rounded, and their largest relative error."""
    middle, half = (low + high) / 2, (high - low) / 2
    if centre == 0:
        known, nodes = [mpf(0), mpf(1)], [mpmath.cos(mpmath.pi * (2 * k + 1) / 6) for k in range(3)]
    else:
        known, nodes = [single(f(centre))], [mpmath.cos(mpmath.pi * k / 10) for k in (1, 3, 7, 9)]
    nodes = [middle + half * x - centre for x in nodes]
    # The coefficients that are not known, through the nodes.
    n, first = len(nodes), len(known)
    a = mpmath.matrix([[r ** (first + j) for j in range(n)] for r in nodes])
    b = mpmath.matrix([f(centre + r) - sum(c * r**k for k, c in enumerate(known)) for r in nodes])
    row = known + [single(c) for c in mpmath.lu_solve(a, b)]
    points = [middle + half * mpmath.cos(mpmath.pi * k / 20) for k in range(20)]
    polynomial = lambda r: sum(c * r**k for k, c in enumerate(row))
    return row, max(abs(polynomial(x - centre) / f(x) - 1) for x in points)


def pieces(f, last):
    """Tables for f(centre + r) = c0 + r * (c1 + r * (c2 + r * (c3 + r * c4))), f(0) = 0.

    The polynomial of a piece goes through f at the five Chebyshev points, of which the
    middle one is the centre. Among the floats near the middle, the centre is one for
    which rounding c0, and then the others, costs least. The first piece is around 0
    itself, where errors are relative: there c0 is 0 and c1 is 1.
    """
    bounds, rows, worst = list(ends()), [], mpf(0)
    for low, high in zip(bounds, bounds[1:]):
        high = min(high, last)
        if low == 0:
            centres = [mpf(0)]
        else:
            middle = single((low + high) / 2)
            unit = mpf(2) ** (mpmath.floor(mpmath.log(middle, 2)) - 23)
            centres = [middle + k * unit for k in range(-1000, 1001)]
            centres.sort(key=lambda x: abs(f(x) - single(f(x))))
        fits = [(piece(f, low, high, centre), centre) for centre in centres[:40]]
        (row, error), centre = min(fits, key=lambda fit: fit[0][1])
        rows.append([centre] + row)
        worst = max(worst, error)
    print(f"error 2^{float(mpmath.log(worst, 2)):.2f}")
    for name, column in zip(["centre", "c0", "c1", "c2", "c3", "c4"], zip(*rows)):
        print(f"    // {name}")
        values = [shortest(c) for c in column]
        for i in range(0, 32, 8):
            print("    " + " ".join(v + "," for v in values[i:i + 8]))


def shortest(x):
    """The shortest decimal that is this f32."""
    x = float(x)
    for digits in range(1, 10):
        text = f"{x:.{digits}g}"
        if float(single(mpf(text))) == x:
            break
    return text if "." in text or "e" in text else text + ".0"


def cubes(powers, rounding):
    """The inverse cube root of a significand, and of the powers of two around it."""
    fit("inverse cube root", lambda x: 1 / mpmath.cbrt(x), mpmath.cbrt, powers,
        mpmath.sqrt(0.5), mpmath.sqrt(2), rounding)
    parts("inverse cube roots of 1/2 and 2", mpmath.cbrt(2), [0], rounding)
    parts("", 1 / mpmath.cbrt(2), [0], rounding)


def singles():
    print("== f32 ==")
    half = LN2 / 2
    margin = mpf("1.0005")
    floor = mpf("0.01")
    parts("ln 2", LN2, [15, 0], single)
    fit("exp", exp_tail, lambda x: x**2 / mpmath.exp(x) + floor, range(5), -half * margin,
        half * margin, single)
    exp2_tail = tail(lambda x: mpf(2) ** x, lambda x: 1, lambda x: x)
    for n in (5, 6, 7):
        fit(f"exp2 {n}", exp2_tail, lambda x: abs(x) + floor, range(n), -margin / 2, margin / 2, single)
    fit("log", log_tail, lambda x: relative(lambda t: t**3, mpmath.log1p, x) + floor, range(8),
        mpmath.sqrt(0.5) - 1, mpmath.sqrt(2) - 1, single)

    parts("log10 2", mpmath.log10(2), [15, 0], single)
    parts("log10 e", 1 / mpmath.log(10), [0, 0], single)
    parts("log2 e", 1 / LN2, [0, 0], single)
    cubes(range(6), single)
    fit("sinh", odd(mpmath.sinh, 1), lambda z: z + floor, range(4), 0, 1, single)

    limit = mpf("0.65")
    for n in (4, 5, 6):
        fit(f"tanh {n}", odd(mpmath.tanh, 1), lambda z: z + floor, range(n), 0, limit**2, single)
    limit = mpf("0.94")
    for n in (5, 6):
        fit(f"erf {n}", tail(lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z), lambda z: 1, lambda z: 1),
            lambda z: 1, range(n), 0, limit**2, single)
    for n in (7, 8, 9):
        fit(f"log2 erfc {n}", lambda t: mpmath.log(mpmath.erfc(t), 2),
            lambda t: mpmath.erfc(t) / mpmath.erf(t) * LN2, range(n), limit - mpf("0.02"), 4, single)

    parts("pi/2", mpmath.pi / 2, [11, 11, 0, 0], single)
    # 1 / 2 pi in pieces that end at fixed bits, so that 24 bits times one are exact.
    print("1 / 2 pi:")
    rest = 1 / (2 * mpmath.pi)
    for i in range(6):
        unit = mpf(2) ** (-2 - 26 * (i + 1))
        piece = mpmath.nint(rest / unit) * unit
        print(f"    {float(piece)!r}")
        rest -= piece
    print(f"    {float(rest)!r}")
    # n is off by one where 2/pi in f32 times 2^20 is off by 0.03 of a quarter turn.
    quarter = mpmath.pi / 4 * mpf("1.06")
    cos_tail = lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2
    fit("sin", odd(mpmath.sin, 1), lambda z: z + floor, range(3), 0, quarter**2, single)
    fit("cos", lambda z: near(cos_tail, z), lambda z: z * z + floor, range(3), 0, quarter**2, single)


def doubles():
    print("== f64 ==")
    half = LN2 / 2
    margin = mpf("1.0005")
    floor = mpf("0.01")
    parts("ln 2", LN2, [40, 0], double)
    for n in (11,):
        fit(f"exp {n}", exp_tail, lambda x: x**2 / mpmath.exp(x) + floor, range(n), -half * margin,
            half * margin, double)
    exp2_tail = tail(lambda x: mpf(2) ** x, lambda x: 1, lambda x: x)
    for n in (12, 13):
        fit(f"exp2 {n}", exp2_tail, lambda x: abs(x) + floor, range(n), -margin / 2, margin / 2, double)
    parts("log10 2", mpmath.log10(2), [40, 0], double)
    parts("log10 e", 1 / mpmath.log(10), [0, 0], double)
    cubes(range(8), double)
    fit("sinh", odd(mpmath.sinh, 1), lambda z: z + floor, range(8), 0, 1, double)
    # log(m) = 2 atanh(s), s = f / (2 + f), m in [1/sqrt(2), sqrt(2))
    for n in (7, 8):
        fit(f"atanh {n}", odd(lambda s: 2 * mpmath.atanh(s), 2), lambda z: z / 2 + floor, range(n), 0, mpf("0.1716")**2, double)
    fit("pow rest", tail(lambda z: near(lambda z: (2 * mpmath.atanh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 2) / z, z), lambda z: mpf(2) / 3, lambda z: z),
        lambda z: z * z / 2 + floor, range(7), 0, mpf("0.1716")**2, double)
    parts("2/3", mpf(2) / 3, [0, 0], double)
    parts("log2 e", 1 / LN2, [0, 0], double)
    parts("ln 2", LN2, [0, 0], double)
    parts("2 pi", 2 * mpmath.pi, [0, 0], double)
    fit("log2 short", tail(lambda z: 2 * mpmath.atanh(mpmath.sqrt(z)) / mpmath.sqrt(z) / LN2, lambda z: 0, lambda z: 1),
        lambda z: LN2 / 2, range(6), 0, mpf("0.1716")**2, double)
    fit("exp2 short", lambda x: mpf(2) ** x, lambda x: mpf(2) ** -x, range(8), -margin / 2, margin / 2, double)
    for limit, n in ((mpf("0.55"), 10), (mpf("0.55"), 11), (mpf("0.55"), 12)):
        fit(f"tanh {n}", odd(mpmath.tanh, 1), lambda z: z + floor, range(n), 0, limit**2, double)
    limit = mpf("1")
    for n in (11, 12, 13):
        fit(f"erf {n}", tail(lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z), lambda z: 1, lambda z: 1),
            lambda z: 1, range(n), 0, limit**2, double)
    for n in (18, 19, 20):
        fit(f"log erfc {n}", lambda t: mpmath.log(mpmath.erfc(t)),
            lambda t: mpmath.erfc(t) / mpmath.erf(t), range(n), limit - mpf("0.02"), 6, double)
    quarter = mpmath.pi / 4 * margin
    cos_tail = lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2
    parts("pi/2", mpmath.pi / 2, [33, 20, 0, 0], double)
    print("1 / 2 pi in words of 64 bits:")
    with mpmath.workdps(500):
        rest = 1 / (2 * mpmath.pi)
        for _ in range(19):
            rest *= mpf(2) ** 64
            word = int(mpmath.floor(rest))
            print(f"    0x{word:016x}")
            rest -= word
    fit("sin", odd(mpmath.sin, 1), lambda z: z + floor, range(6), 0, quarter**2, double)
    fit("cos", lambda z: near(cos_tail, z), lambda z: z * z + floor, range(6), 0, quarter**2, double)


def inverse_erf(w):
    """erf_inv(x) / x as a function of w = -log(1 - x^2), by Halley's method."""
    w = max(w, mpf("1e-20"))
    q = mpmath.exp(-w)
    x = mpmath.sqrt(1 - q)
    return inverse_erf_of(x, q / (1 + x)) / x


def inverse_erf_of(x, rest):
    """erf_inv(x) of x > 0, given 1 - x."""
    y = mpmath.sqrt(-mpmath.log(rest)) if rest < mpf("0.1") else x
    for _ in range(60):
        d = (mpmath.erfc(y) - rest) / (2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y))
        d /= 1 - y * d
        y += d
        if abs(d) < mpf(10) ** (8 - mp.dps) * y:
            return y
    raise ArithmeticError(x)


def special():
    """Inverse and special functions; with two lists, f32 computes in f64 by the first."""
    mp.dps = 60
    floor = mpf("0.01")
    limit = mpf("0.36")
    asin = odd(mpmath.asin, 1)
    fit("asin f32", asin, lambda z: z + floor, range(7), 0, limit, single)
    fit("asin f64", asin, lambda z: z + floor, range(15), 0, limit, double)
    parts("pi/2", mpmath.pi / 2, [0, 0], single)
    parts("pi/2", mpmath.pi / 2, [0, 0], double)
    limit = mpf("0.5525") ** 2
    atan = odd(mpmath.atan, 1)
    fit("atan f32", atan, lambda z: z + floor, range(6), 0, limit, single)
    for n in (7, 13):
        fit(f"atan {n}", atan, lambda z: z + floor, range(n), 0, limit, double)
    parts("pi/4", mpmath.pi / 4, [20, 0], single)
    parts("pi/4", mpmath.pi / 4, [50, 0], double)

    # exp(x^2) erfc(x) (x + c) in u = (c - x) / (c + x).
    c = mpf("2.5")
    for n, top in ((12, mpf("10.2")), (23, mpf("27.3"))):

        def scaled(u):
            x = c * (1 - u) / (1 + u)
            return mpmath.exp(x * x) * mpmath.erfc(x) * (x + c)

        fit(f"erfc {n}", scaled, lambda u: 1 / scaled(u), range(n), (c - top) / (c + top), 1, double)

    def inverse(name, n, center, low, high, w):
        f = lambda s: inverse_erf(w(s + center))
        fit(f"erf_inv {name} {n}", f, lambda s: 1 / f(s), range(n), low - center, high - center, double)

    identity = lambda w: w
    square = lambda s: s * s
    root = mpmath.sqrt
    inverse("center", 11, mpf("2.5"), mpf(0), mpf(5), identity)
    inverse("tail", 10, mpf("3.125"), root(5), mpf(4), square)
    inverse("center", 22, mpf("3.125"), mpf(0), mpf("6.25"), identity)
    inverse("tail", 18, mpf("3.25"), mpf("2.5"), mpf(4), square)
    inverse("end", 16, mpf("5"), mpf(4), root(mpf("36.75")), square)

    # ln gamma(1 + y) / y (y - 1) and digamma(1 + y) / (y - zero), s = y - 3/4.
    center = mpf("0.75")
    tiny = mpf("1e-24")

    def beside(y, *zeros):
        return y + tiny if any(abs(y - z) < tiny / 10 for z in zeros) else y

    def log_gamma(s):
        y = beside(s + center, 0, 1)
        return mpmath.loggamma(1 + y) / (y * (y - 1))

    for n in (24,):
        fit(f"lgamma {n}", log_gamma, lambda s: 1 / log_gamma(s), range(n), -center, center, double)
    zero = mpmath.findroot(mpmath.digamma, mpf("1.4616321449683623"))
    parts("zero of digamma, less 1", zero - 1, [0, 0], double)

    def derivative(s):
        y = beside(s + center, zero - 1)
        return mpmath.digamma(1 + y) / (y + 1 - zero)

    for n in (25,):
        fit(f"digamma {n}", derivative, lambda s: 1 / derivative(s), range(n), -center, center, double)
    for n in (8,):
        sin = lambda r: mpmath.sin(mpmath.pi * r) / mpmath.pi
        fit(f"sin of half {n}", odd(sin, 1), lambda z: z + floor, range(n), 0, mpf("0.25"), double)
    cos = tail(lambda z: mpmath.cos(mpmath.pi * mpmath.sqrt(z)), lambda z: 1, lambda z: z)
    for m, n in ((6, 7),):
        fit(f"sin of quarter {m}", odd(sin, 1), lambda z: z + floor, range(m), 0, mpf("0.0625"), double)
        fit(f"cos of quarter {n}", cos, lambda z: z + floor, range(n), 0, mpf("0.0625"), double)
    # What Stirling's formula lacks, from 8 on, in z = 1/x^2.
    mp.dps = 80
    constant = mpmath.log(2 * mpmath.pi) / 2 - mpf(1) / 2
    print(f"half ln 2 pi e: {float(constant)!r}")
    at = lambda z: 1 / mpmath.sqrt(max(z, mpf("1e-20")))

    def stirling(z):
        x = at(z)
        return (mpmath.loggamma(x) - (x - mpf(1) / 2) * (mpmath.log(x) - 1) - constant) * x

    def stirling_slope(z):
        x = at(z)
        return (mpmath.log(x) - 1 / (2 * x) - mpmath.digamma(x)) * x * x

    for n in (6,):
        fit(f"stirling {n}", stirling, lambda z: 1, range(n), 0, mpf(1) / 64, double)
        fit(f"slope {n}", stirling_slope, lambda z: 1, range(n), 0, mpf(1) / 64, double)


def points():
    """Arguments and results of f64 functions: `name x [y] nearest rest`.

    Floats are bit patterns; `rest` is what the nearest float lacks, in units of its
    last place.
    """
    random.seed(1)
    one = lambda low, high: [random.uniform(low, high) for _ in range(100)]
    wide = lambda low, high: [math.ldexp(random.uniform(1, 2), random.randint(low, high)) for _ in range(100)]
    both = lambda xs: [x if i % 2 == 0 else -x for i, x in enumerate(xs)]
    fewer = lambda low, high: one(low, high)[:40]
    functions = {
        "exp2": (lambda x: mpf(2) ** x, both(fewer(0, 1) + fewer(1, 1020))),
        "expm1": (mpmath.expm1, both(fewer(0, 1) + fewer(0.5, 50) + wide(-60, 9))),
        "log1p": (mpmath.log1p, both(fewer(0, 1)) + wide(-60, 1023)),
        "log2": (lambda x: mpmath.log(x, 2), fewer(0.5, 2) + wide(-1074, 1023)),
        "log10": (mpmath.log10, fewer(0.5, 2) + wide(-1074, 1023)),
        "rsqrt": (lambda x: 1 / mpmath.sqrt(x), wide(-1074, 1023)),
        "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), both(wide(-1074, 1023))),
        "logistic": (lambda x: 1 / (1 + mpmath.exp(-x)), both(fewer(0, 5) + fewer(0, 744))),
        "sinh": (mpmath.sinh, both(fewer(0, 2) + fewer(1, 710) + wide(-60, 1)[:40])),
        "cosh": (mpmath.cosh, both(fewer(0, 2) + fewer(1, 710) + wide(-60, 1)[:40])),
        "asinh": (mpmath.asinh, both(fewer(0, 2) + wide(-60, 1023))),
        "acosh": (mpmath.acosh, fewer(1, 1.1) + fewer(1, 4) + wide(0, 1023)),
        "atanh": (mpmath.atanh, both(fewer(0, 1) + fewer(0, 0.3) + wide(-60, -1)[:40])),
        "exp": (mpmath.exp, one(-1, 1) + one(-745, 709) + wide(-60, -1)),
        "log": (mpmath.log, one(0.5, 2) + wide(-1074, 1023) + one(0.99, 1.01)),
        "tanh": (mpmath.tanh, both(one(0, 1) + one(0.5, 20) + wide(-60, 3))),
        "erf": (mpmath.erf, both(one(0, 1.1) + one(0.9, 6) + wide(-60, 2))),
        "sin": (mpmath.sin, both(one(0, 10) + wide(-30, 30) + wide(10, 1023))),
        "cos": (mpmath.cos, both(one(0, 10) + wide(-30, 30) + wide(10, 1023))),
    }
    # Near multiples of pi/2, where the reduction cancels most.
    close = [float(mpmath.nint(random.uniform(1, 2) * 2**k) * mpmath.pi / 2) for k in range(1, 60)]
    close.append(6381956970095103.0 * 2.0**797)
    functions["sin"][1].extend(close)
    functions["cos"][1].extend(close)
    mp.dps = 400

    def bits(x):
        return struct.unpack("<Q", struct.pack("<d", x))[0]

    def show(name, xs, exact):
        nearest = float(exact)
        ulp = mpf(math.ulp(nearest))
        rest = float((exact - mpf(nearest)) / ulp)
        print(name, *(f"{bits(x):016x}" for x in xs), f"{bits(nearest):016x}", f"{rest:.4f}")

    for name, (f, xs) in functions.items():
        for x in xs:
            show(name, [x], f(mpf(x)))
    for x, y in zip(one(0.5, 2) + wide(-500, 500) + one(0.99, 1.01), one(-900, 900) + one(-2, 2) + one(-50000, 50000)):
        show("pow", [x, y], mpf(x) ** mpf(y))
    special_points(one, wide, both, close, show)


def special_points(one, wide, both, close, show):
    """The same of inverse and special functions."""
    some = lambda values: values[::2]
    ends = [1 - x for x in some(wide(-52, -2))]
    beside = lambda zeros, values: [z + x for z, x in zip(zeros * len(values), both(values))]
    poles = beside([float(-k) for k in range(10)], some(wide(-40, -2)))
    functions = {
        "tan": (mpmath.tan, both(some(one(0, 10)) + wide(-30, 30) + some(wide(10, 1023))) + close),
        "asin": (mpmath.asin, both(one(0, 1) + some(wide(-60, -1)) + ends)),
        "acos": (mpmath.acos, both(one(0, 1) + some(wide(-60, -1)) + ends)),
        "atan": (mpmath.atan, both(one(0, 3) + some(wide(-60, 60)))),
        "erfc": (mpmath.erfc, one(-6, 1) + one(0, 27.2) + some(wide(-60, 1))),
        "erf_inv": (
            lambda x: mpmath.sign(x) * inverse_erf_of(abs(x), 1 - abs(x)),
            both(one(0, 1) + some(wide(-40, -1)) + ends),
        ),
        "lgamma": (
            lambda x: mpmath.log(abs(mpmath.gamma(x))) if x < 200 else mpmath.loggamma(x),
            one(0, 12) + some(wide(-300, 1000)) + beside([1.0, 2.0], some(wide(-50, -3)))
            + one(-12, 0) + poles,
        ),
        "digamma": (
            mpmath.digamma,
            one(0, 12) + some(wide(-300, 1000)) + beside([1.4616321449683622], some(wide(-50, -3)))
            + one(-12, 0) + poles,
        ),
    }
    for name, (f, xs) in functions.items():
        # The argument of the tangent is reduced by many digits of pi.
        with mpmath.workdps(400 if name == "tan" else 60):
            for x in xs:
                show(name, [x], f(mpf(x)))
    for y, x in zip(both(one(0, 4)) + both(wide(-300, 300)), both(one(0, 4))[::-1] + wide(-300, 300)):
        show("atan2", [y, x], mpmath.atan2(mpf(y), mpf(x)))


if __name__ == "__main__":
    if sys.argv[1:] == ["points"]:
        points()
    elif sys.argv[1:] == ["pieces"]:
        mp.dps = 40
        pieces(mpmath.tanh, mpf("9.125"))
    elif sys.argv[1:] == ["special"]:
        special()
    else:
        singles()
        doubles()
