"""Writes what numpy says the ops compute, for `eval` to be compared with.

    python tests/goldens/generate.py             write the files beside this script
    python tests/goldens/generate.py --verify    compare with them instead; exit 1 if
                                                 any differs

`cargo xtask goldens` runs this in an environment with the versions that
`requirements.txt` pins; `compiler/ir/tests/goldens.rs` reads the files.

What numpy defines is taken from numpy: IEEE arithmetic, wrapping integers, comparisons,
views. Where it leaves a result to the machine, the rule of `docs/numerics.md` is written
out here in exact arithmetic:

- Transcendental functions of numpy differ in the last bit from one CPU to another. The
  files hold the correctly rounded value, by way of mpmath, and numpy is asked whether it
  agrees to within a few units.
- Division by zero, shifts by too much and conversions of floats that do not fit are
  computed on Python's integers and fractions.
- Sums of floats are exact fractions, rounded once.

A file is a list of tensors and cases. Elements are bit patterns in hexadecimal, as many
digits as the type has, row-major, in indented lines.

Complex elements are the bits of the imaginary part, then those of the real one: the
number whose little-endian bytes are those in memory.

    let a f32[3]                  names a tensor
      3f8000007fc0000080000000
    case exp a -> f32[3] ulp=1    an op on named tensors and what it must give
      ...
    case reduce_sum axes=[0] a -> f32[] ulp=0
      ...

Of an op with several results, `result=1` is the attribute of a case about the second.
"""

import argparse
import cmath
import math
import pathlib
import sys
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np

# ---------------------------------------------------------------------------- types

BITS = {
    "bool": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32,
    "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
}  # fmt: skip
SIGNED = ["i8", "i16", "i32", "i64"]
UNSIGNED = ["u8", "u16", "u32", "u64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["f16", "bf16", "f32", "f64"]
NUMBERS = INTEGERS + FLOATS
ALL = ["bool"] + NUMBERS
COMPLEX = {"c64": "f32", "c128": "f64"}

# Digits of the significand, and the exponent of the least normal number.
PRECISION = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126), "f64": (53, -1022)}
NUMPY_FLOAT = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def least(dtype):
    return -(1 << (BITS[dtype] - 1)) if dtype in SIGNED else 0


def greatest(dtype):
    return (1 << (BITS[dtype] - (dtype in SIGNED))) - 1


def encode_integer(dtype, x):
    """The bits of an integer, wrapped to the type; of a `bool`, whether it is not 0."""
    return int(x != 0) if dtype == "bool" else x & ((1 << BITS[dtype]) - 1)


def encode_float(dtype, x):
    """The bits of a float or a fraction, rounded once, to nearest even."""
    digits, least_exponent = PRECISION[dtype]
    width = BITS[dtype]
    infinity = ((1 << (width - digits)) - 1) << (digits - 1)
    if isinstance(x, float):
        if math.isnan(x):
            return infinity | 1 << (digits - 2)
        sign = int(math.copysign(1, x) < 0) << (width - 1)
        if math.isinf(x):
            return sign | infinity
    else:
        sign = int(x < 0) << (width - 1)
    x = abs(Fraction(x))
    if x == 0:
        return sign
    # 2^exponent <= x < 2^(exponent + 1), but no less than the least normal exponent.
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    exponent = max(exponent, least_exponent)
    significand = round(x / Fraction(2) ** (exponent - digits + 1))
    # A significand that rounds up to the next power of two carries into the exponent,
    # and that of the greatest number into infinity.
    bits = significand + ((exponent - least_exponent) << (digits - 1))
    return sign | min(bits, infinity)


def bits_dtype(dtype):
    """Of numpy's arrays of bit patterns; those of `c128` are Python's integers."""
    return object if dtype == "c128" else f"u{BITS[dtype] // 8}"


def decode(dtype, bits):
    """The value of a bit pattern: an int, or a float (or complex) that holds it exactly."""
    if dtype in COMPLEX:
        part = COMPLEX[dtype]
        width = BITS[part]
        return complex(decode(part, bits & ((1 << width) - 1)), decode(part, bits >> width))
    if dtype not in FLOATS:
        return bits - (1 << BITS[dtype]) if bits > greatest(dtype) else bits
    if dtype == "bf16":
        dtype, bits = "f32", bits << 16
    word = np.array(bits, dtype=f"u{BITS[dtype] // 8}")
    return float(word.view(NUMPY_FLOAT[dtype]))


def encode(dtype, x):
    """The bits of a number; of a complex one given as such or as a pair of parts."""
    if dtype in COMPLEX:
        re, im = x if isinstance(x, tuple) else (x.real, x.imag)
        part = COMPLEX[dtype]
        return encode_float(part, re) | encode_float(part, im) << BITS[part]
    return encode_float(dtype, x) if dtype in FLOATS else encode_integer(dtype, x)


class Tensor:
    """An array of bit patterns."""

    def __init__(self, dtype, bits):
        self.dtype = dtype
        self.bits = np.asarray(bits, dtype=bits_dtype(dtype))

    @classmethod
    def of(cls, dtype, values, shape=None):
        bits = np.array([encode(dtype, x) for x in values], dtype=bits_dtype(dtype))
        return cls(dtype, bits if shape is None else bits.reshape(shape))

    def values(self):
        """The elements in row-major order."""
        return [decode(self.dtype, int(b)) for b in self.bits.ravel()]

    def objects(self):
        """An array of exact numbers."""
        exact = np.empty(self.bits.size, dtype=object)
        exact[:] = [Fraction(x) for x in self.values()]
        return exact.reshape(self.bits.shape)

    def floats(self):
        """A numpy array to compute with; `bf16` as `f64`."""
        if self.dtype == "bf16":
            return np.array(self.values()).reshape(self.bits.shape)
        return self.bits.view(NUMPY_FLOAT[self.dtype])

    def type(self):
        return f"{self.dtype}[{','.join(map(str, self.bits.shape))}]"

    def lines(self):
        digits = BITS[self.dtype] // 4
        row = 96 // digits
        words = [f"{int(b):0{digits}x}" for b in self.bits.ravel()]
        return ["  " + "".join(words[i : i + row]) for i in range(0, len(words), row)]


class Golden:
    """A file in the making."""

    def __init__(self, title):
        self.text = [f"# {title}", "# Written by generate.py: do not edit."]
        self.names = {}

    def name(self, tensor):
        """The name of a tensor, which is written out when it is first used."""
        key = (tensor.type(), tuple(map(int, tensor.bits.ravel())))
        if key not in self.names:
            self.names[key] = f"t{len(self.names)}"
            self.text += [f"let {self.names[key]} {tensor.type()}", *tensor.lines()]
        return self.names[key]

    def case(self, op, operands, tensor, ulp=0, **attributes):
        names = [self.name(x) for x in operands]
        attrs = [f"{k}={str(v).replace(' ', '')}" for k, v in attributes.items()]
        words = ["case", op, *attrs, *names, "->", tensor.type(), f"ulp={ulp}"]
        self.text += [" ".join(words), *tensor.lines()]

    def finish(self):
        return "\n".join(self.text) + "\n"


class Random:
    """Numbers that are the same everywhere (Knuth's MMIX generator)."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return self.state >> 32

    def unit(self):
        return self.word() / 2**32

    def tensor(self, dtype, shape, low=-4, high=4):
        """Small numbers; integers and bools of every pattern."""
        count = math.prod(shape)
        if dtype in FLOATS:
            values = [low + (high - low) * self.unit() for _ in range(count)]
        elif dtype in COMPLEX:
            parts = [low + (high - low) * self.unit() for _ in range(2 * count)]
            values = [complex(*pair) for pair in zip(parts[::2], parts[1::2])]
        else:
            values = [self.word() | self.word() << 32 for _ in range(count)]
            values = [v >> 7 & 1 if dtype == "bool" else v for v in values]
        return Tensor.of(dtype, values, shape)


# ------------------------------------------------------------------------ edge values


def distinct(dtype, values):
    """A vector of the values that differ in the type, in order."""
    return Tensor(dtype, list(dict.fromkeys(encode(dtype, x) for x in values)))


def float_limits(dtype):
    """Least subnormal, greatest subnormal, least normal, greatest."""
    digits, least_exponent = PRECISION[dtype]
    step = Fraction(2) ** (least_exponent - digits + 1)
    normal = Fraction(2) ** least_exponent
    top = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** (1 - least_exponent)
    return step, normal - step, normal, top


def edges(dtype):
    """Values at which functions and conversions change their ways."""
    if dtype == "bool":
        return Tensor.of(dtype, [0, 1])
    if dtype in INTEGERS:
        low, high = least(dtype), greatest(dtype)
        return distinct(dtype, [0, 1, -1, 2, 3, 7, -7, 100, low, low + 1, high, high - 1])
    special = [0.0, -0.0, math.inf, -math.inf, math.nan]
    limits = [s * x for x in float_limits(dtype) for s in (1, -1)]
    plain = [1, 0.5, 1.5, 2.5, 3.5, 0.1, 1e-3, 0.4999, 0.75, math.pi, 7.3, 20.5, 88.7, 104.2, 710.2]
    whole = [2.0**e + d for e in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-0.5, 0.0)]
    return distinct(dtype, special + limits + [s * x for x in plain + whole for s in (1.0, -1.0)])


def pairs(dtype):
    """Two vectors: every pair of a few edge values, and some others."""
    if dtype == "bool":
        few = [0, 1]
    elif dtype in INTEGERS:
        few = [0, 1, -1, 3, -7, least(dtype), greatest(dtype)]
    else:
        tiny, _, _, top = float_limits(dtype)
        few = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, top, tiny]
    values = distinct(dtype, few).values()
    both = list(product(values, values))
    random = Random(BITS[dtype])
    if dtype in FLOATS:
        both += [(8 * random.unit() - 4, 8 * random.unit() - 4) for _ in range(12)]
        both += [(8 * random.unit(), float(i - 3)) for i in range(6)]
    elif dtype in INTEGERS:
        both += [(random.word(), random.word()) for _ in range(6)]
        both += [(random.word(), i) for i in range(6)]
    left, right = zip(*both)
    return Tensor.of(dtype, left), Tensor.of(dtype, right)


# ---------------------------------------------------------------------------- the ops


def from_numpy(dtype, array):
    """A float array that numpy computed, in the type."""
    if dtype == "bf16":
        return Tensor.of(dtype, [float(x) for x in array.ravel()], array.shape)
    return Tensor(dtype, array.astype(NUMPY_FLOAT[dtype]).view(f"u{BITS[dtype] // 8}"))


def exact(x):
    """An mpmath number as a float if it is special, else as a fraction."""
    if not mpmath.isfinite(x):
        return float(x)
    sign, mantissa, exponent, _ = x._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent


def logistic(x):
    """In the form that keeps its digits on the side of `x`; numpy has no such function."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


TRANSCENDENTAL = {
    "exp": (mpmath.exp, np.exp),
    "exp2": (lambda x: mpmath.power(2, x), np.exp2),
    "expm1": (mpmath.expm1, np.expm1),
    "log": (mpmath.log, np.log),
    "log1p": (mpmath.log1p, np.log1p),
    "log2": (lambda x: mpmath.log(x, 2), np.log2),
    "log10": (mpmath.log10, np.log10),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt),
    "logistic": (lambda x: 1 / (1 + mpmath.exp(-x)), logistic),
    "sinh": (mpmath.sinh, np.sinh),
    "cosh": (mpmath.cosh, np.cosh),
    "asinh": (mpmath.asinh, np.arcsinh),
    "acosh": (mpmath.acosh, np.arccosh),
    "atanh": (mpmath.atanh, np.arctanh),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda x: 1 / np.sqrt(x)),
    "tanh": (mpmath.tanh, np.tanh),
    "sin": (mpmath.sin, np.sin),
    "cos": (mpmath.cos, np.cos),
    "erf": (mpmath.erf, np.vectorize(math.erf)),
}

# IEEE and the C standard, where a limit or the sign of a zero has to be chosen.
SPECIAL = {
    "exp": {math.inf: math.inf, -math.inf: 0.0},
    "exp2": {math.inf: math.inf, -math.inf: 0.0},
    "expm1": {math.inf: math.inf, -math.inf: -1.0},
    "log": {math.inf: math.inf, 0.0: -math.inf},
    "log1p": {math.inf: math.inf, -1.0: -math.inf},
    "log2": {math.inf: math.inf, 0.0: -math.inf},
    "log10": {math.inf: math.inf, 0.0: -math.inf},
    "cbrt": {math.inf: math.inf, -math.inf: -math.inf},
    "logistic": {math.inf: 1.0, -math.inf: 0.0},
    "sinh": {math.inf: math.inf, -math.inf: -math.inf},
    "cosh": {math.inf: math.inf, -math.inf: math.inf},
    "asinh": {math.inf: math.inf, -math.inf: -math.inf},
    "acosh": {math.inf: math.inf},
    "atanh": {1.0: math.inf, -1.0: -math.inf},
    "rsqrt": {math.inf: 0.0},
    "tanh": {math.inf: 1.0, -math.inf: -1.0},
    "sin": {math.inf: math.nan, -math.inf: math.nan},
    "cos": {math.inf: math.nan, -math.inf: math.nan},
    "erf": {math.inf: 1.0, -math.inf: -1.0},
}


# The functions that keep the sign of a zero.
ODD = ("sin", "tanh", "erf", "expm1", "log1p", "cbrt", "sinh", "asinh", "atanh")

# Outside, the result is NaN.
DOMAIN = {
    "log": (0, math.inf),
    "log1p": (-1, math.inf),
    "log2": (0, math.inf),
    "log10": (0, math.inf),
    "rsqrt": (0, math.inf),
    "acosh": (1, math.inf),
    "atanh": (-1, 1),
}


def transcendental(op, x):
    """The function of a float, exact enough to be rounded to any type."""
    if math.isnan(x):
        return x
    if x == 0 and op in ODD:
        return x
    if x == 0 and op == "rsqrt":
        return math.copysign(math.inf, x)
    low, high = DOMAIN.get(op, (-math.inf, math.inf))
    if not low <= x <= high:
        return math.nan
    if x in SPECIAL[op]:
        return SPECIAL[op][x]
    # Out of every type's range: mpmath would try to write the number down.
    if op in ("exp", "exp2", "expm1", "logistic", "sinh", "cosh") and abs(x) > 1200:
        return SPECIAL[op][math.copysign(math.inf, x)]
    return exact(TRANSCENDENTAL[op][0](mpmath.mpf(x)))


def ordinal(dtype, bits):
    """A float's place among the floats of its type."""
    top = 1 << (BITS[dtype] - 1)
    return top - bits if bits & top else bits


def must_agree(op, dtype, ours, numpys, ulp):
    """Refuses to write a value that is far from numpy's."""
    for a, b in zip(ours.bits.ravel(), numpys.bits.ravel()):
        a, b = int(a), int(b)
        nan = [math.isnan(decode(dtype, x)) for x in (a, b)]
        near = abs(ordinal(dtype, a) - ordinal(dtype, b)) <= ulp
        if nan[0] != nan[1] or not (nan[0] or near):
            sys.exit(f"{op} {dtype}: {a:x} here, {b:x} in numpy")


def unary():
    golden = Golden("Functions of one element.")
    for dtype in NUMBERS:
        x = edges(dtype)
        if dtype in INTEGERS:
            values = x.values()
            golden.case("neg", [x], Tensor.of(dtype, [-v for v in values]))
            golden.case("abs", [x], Tensor.of(dtype, [abs(v) for v in values]))
            golden.case("sign", [x], Tensor.of(dtype, [(v > 0) - (v < 0) for v in values]))
            golden.case("not", [x], Tensor(dtype, ~x.bits))
            continue
        a = x.floats()
        golden.case("neg", [x], from_numpy(dtype, -a))
        golden.case("abs", [x], from_numpy(dtype, np.abs(a)))
        golden.case("sign", [x], from_numpy(dtype, np.where(a == 0, a, np.sign(a))))
        golden.case("floor", [x], from_numpy(dtype, np.floor(a)))
        golden.case("ceil", [x], from_numpy(dtype, np.ceil(a)))
        golden.case("round", [x], from_numpy(dtype, np.rint(a)))
        golden.case("sqrt", [x], from_numpy(dtype, np.sqrt(a)))
        golden.case("is_finite", [x], Tensor("bool", np.isfinite(a)))
        random = Random(7)
        near = Tensor.of(dtype, [12 * random.unit() - 6 for _ in range(24)])
        for op, (_, numpys) in TRANSCENDENTAL.items():
            for x in (edges(dtype), near):
                result = Tensor.of(dtype, [transcendental(op, v) for v in x.values()])
                wide = numpys(np.array(x.values()))
                must_agree(op, dtype, result, from_numpy(dtype, wide), 2)
                golden.case(op, [x], result, ulp=int(dtype == "f64"))
    booleans = edges("bool")
    golden.case("not", [booleans], Tensor("bool", 1 - booleans.bits))
    return golden


def divide(dtype, a, b):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(dtype, a, b):
    return a if b == 0 else a - b * divide(dtype, a, b)


def integer_pow(dtype, a, b):
    if b >= 0:
        return pow(a, b, 1 << BITS[dtype])
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


def shift_left(dtype, a, b):
    return a << b if 0 <= b < BITS[dtype] else 0


def shift_right_logical(dtype, a, b):
    return encode_integer(dtype, a) >> b if 0 <= b < BITS[dtype] else 0


def shift_right_arithmetic(dtype, a, b):
    bits = encode_integer(dtype, a)
    signed = bits - (1 << BITS[dtype]) if bits >> (BITS[dtype] - 1) else bits
    return signed >> (b if 0 <= b < BITS[dtype] else BITS[dtype] - 1)


INTEGER_RULES = {
    "div": divide,
    "rem": remainder,
    "pow": integer_pow,
    "shift_left": shift_left,
    "shift_right_logical": shift_right_logical,
    "shift_right_arithmetic": shift_right_arithmetic,
}

NUMPY_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def extreme(op, a, b):
    """`min` or `max` of floats: NaN wins, the first of two; −0 is below +0."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    key = lambda x: (x, math.copysign(1, x))
    return min(a, b, key=key) if op == "min" else max(a, b, key=key)


def float_pow(a, b):
    """By C's rules for what is special, else exact."""
    if any(math.isnan(x) or math.isinf(x) or x == 0 for x in (a, b)) or a == 1:
        return float(np.power(np.float64(a), np.float64(b)))
    if a < 0 and b != int(b):
        return math.nan
    # Out of every type's range: mpmath would try to write the number down.
    magnitude = b * math.log2(abs(a))
    sign = -1.0 if a < 0 and b % 2 == 1 else 1.0
    if abs(magnitude) > 2000:
        return sign * (math.inf if magnitude > 0 else 0.0)
    return exact(mpmath.power(mpmath.mpf(a), mpmath.mpf(b)))


def binary():
    golden = Golden("Functions of two elements.")
    for dtype in ALL:
        a, b = pairs(dtype)
        values = list(zip(a.values(), b.values()))
        if dtype in FLOATS:
            for op, numpys in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
                               ("div", np.divide), ("rem", np.fmod)]:  # fmt: skip
                golden.case(op, [a, b], from_numpy(dtype, numpys(a.floats(), b.floats())))
            for op, numpys in [("min", np.minimum), ("max", np.maximum)]:
                result = Tensor.of(dtype, [extreme(op, x, y) for x, y in values])
                # Apart from the sign of zeros, numpy says the same.
                same = result.floats() == numpys(a.floats(), b.floats())
                assert np.all(same | np.isnan(result.floats()))
                golden.case(op, [a, b], result)
            result = Tensor.of(dtype, [float_pow(x, y) for x, y in values])
            wide = np.power(np.array(a.values()), np.array(b.values()))
            must_agree("pow", dtype, result, from_numpy(dtype, wide), 2)
            golden.case("pow", [a, b], result, ulp=int(dtype == "f64"))
            continue
        for op in ["min", "max"]:
            choose = min if op == "min" else max
            golden.case(op, [a, b], Tensor.of(dtype, [choose(v) for v in values]))
        for op in ["and", "or", "xor"]:
            golden.case(op, [a, b], Tensor(dtype, NUMPY_BINARY[op](a.bits, b.bits)))
        if dtype == "bool":
            golden.case("add", [a, b], Tensor(dtype, a.bits | b.bits))
            golden.case("mul", [a, b], Tensor(dtype, a.bits & b.bits))
            continue
        for op in ["add", "sub", "mul"]:
            golden.case(op, [a, b], Tensor(dtype, NUMPY_BINARY[op](a.bits, b.bits)))
        for op, rule in INTEGER_RULES.items():
            golden.case(op, [a, b], Tensor.of(dtype, [rule(dtype, x, y) for x, y in values]))
    return golden


def choose():
    golden = Golden("Comparisons, select and clamp.")
    comparisons = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less,
        "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    for dtype in ALL:
        a, b = pairs(dtype)
        if dtype in FLOATS:
            x, y = a.floats(), b.floats()
        else:
            kind = "i" if dtype in SIGNED else "u"
            x, y = (t.bits.view(f"{kind}{BITS[dtype] // 8}") for t in (a, b))
        for op, numpys in comparisons.items():
            golden.case(op, [a, b], Tensor("bool", numpys(x, y)))
        chooser = Tensor("bool", np.arange(a.bits.size) % 3 == 0)
        chosen = np.where(chooser.bits == 1, a.bits, b.bits)
        golden.case("select", [chooser, a, b], Tensor(dtype, chosen))
        # Every third of the pairs as limits, low above high among them.
        low, high = Tensor(dtype, a.bits[::3]), Tensor(dtype, b.bits[::3])
        value = Tensor(dtype, np.resize(edges(dtype).bits, low.bits.shape))
        triples = list(zip(low.values(), value.values(), high.values()))
        if dtype in FLOATS:
            result = [extreme("min", extreme("max", v, l), h) for l, v, h in triples]
        else:
            result = [min(max(v, l), h) for l, v, h in triples]
        golden.case("clamp", [low, value, high], Tensor.of(dtype, result))
    return golden


def converted(x, to):
    """A value of any type as one of the type `to`."""
    if isinstance(x, float) and to in INTEGERS:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return greatest(to) if x > 0 else least(to)
        return min(max(int(x), least(to)), greatest(to))
    return x if isinstance(x, float) else Fraction(x) if to in FLOATS else x


def convert():
    golden = Golden("Conversions from each type to each.")
    for source, to in product(ALL, ALL):
        x = edges(source)
        golden.case("convert", [x], Tensor.of(to, [converted(v, to) for v in x.values()]))
    return golden


def generate():
    golden = Golden("Counting.")
    for dtype in NUMBERS:
        # 260 wraps 8-bit integers and passes the integers that bf16 holds.
        count = 260 if dtype in ("i8", "u8", "bf16") else 33
        golden.case("iota", [], Tensor.of(dtype, range(count)), axis=0)
        for axis in range(3):
            index = np.indices((2, 3, 4))[axis].ravel()
            golden.case("iota", [], Tensor.of(dtype, map(int, index), (2, 3, 4)), axis=axis)
    golden.case("iota", [], Tensor.of("i32", [], (0, 3)), axis=1)
    return golden


def padded(x, value, low, high, interior):
    """numpy's `pad` after spreading by strides, then cut where negative."""
    spread = [d + max(d - 1, 0) * i for d, i in zip(x.shape, interior)]
    field = np.full(spread, value, dtype=x.dtype)
    field[tuple(slice(None, None, i + 1) for i in interior)] = x
    widths = [(max(l, 0), max(h, 0)) for l, h in zip(low, high)]
    field = np.pad(field, widths, constant_values=value)
    cut = [slice(max(-l, 0), d - max(-h, 0)) for l, h, d in zip(low, high, field.shape)]
    return field[tuple(cut)]


def movement():
    golden = Golden("Views: elements move and keep their bits.")
    for seed, dtype in enumerate([*ALL, *COMPLEX]):
        random = Random(seed)
        x = random.tensor(dtype, (2, 3, 4))
        bits, value = x.bits, random.tensor(dtype, ())
        seen = set()

        # Every variety for the narrowest and the usual type; one of each op for the rest.
        def case(op, operands, result, **attributes):
            if dtype in ("u8", "f32") or op not in seen:
                golden.case(op, operands, Tensor(dtype, result), **attributes)
            seen.add(op)

        row = Tensor(dtype, bits[0, 0])
        case("broadcast", [row], np.broadcast_to(bits[0, 0], (2, 3, 4)), axes=[2])
        case("broadcast", [value], np.broadcast_to(value.bits, (2, 3)))
        column = np.broadcast_to(bits[0, 0][:, None], (4, 3))
        case("broadcast", [row], column, axes=[0])
        thin = Tensor(dtype, bits[:, :1, :])
        wide = np.broadcast_to(bits[:, :1, :], (2, 5, 4))
        case("broadcast", [thin], wide, axes=[0, 1, 2])
        case("reshape", [x], bits.reshape(6, 4))
        case("reshape", [x], bits.reshape(24))
        for permutation in [[0, 2, 1], [1, 2, 0], [2, 1, 0]]:
            case("transpose", [x], bits.transpose(permutation), permutation=permutation)
        for axes in [[0, 2], [1], []]:
            case("reverse", [x], np.flip(bits, axes), axes=axes)
        cut = dict(start=[0, 1, 0], limit=[2, 3, 4], stride=[1, 1, 3])
        case("slice", [x], bits[0:2, 1:3, 0:4:3], **cut)
        case("slice", [x], bits[1:2, 3:3, 1:3], start=[1, 3, 1], limit=[2, 3, 3])
        for low, high, interior in [
            ([0, -1, 1], [0, 2, -2], [0, 0, 1]),
            ([1, 0, 2], [0, 1, 0], [0, 0, 0]),
            ([-1, 0, -3], [3, 0, -2], [1, 2, 2]),
        ]:
            result = padded(bits, value.bits, low, high, interior)
            attributes = dict(low=low, high=high, interior=interior)
            case("pad", [x, value], result, **attributes)
        for axis in range(3):
            y = random.tensor(dtype, [2 if a == axis else d for a, d in enumerate((2, 3, 4))])
            joined = np.concatenate([bits, y.bits, bits], axis)
            case("concatenate", [x, y, x], joined, axis=axis)
    return golden


def dynamic():
    golden = Golden("Slices at starts that clamp.")
    for seed, dtype in enumerate([*ALL, *COMPLEX]):
        random = Random(seed)
        x, update = random.tensor(dtype, (4, 5)), random.tensor(dtype, (2, 3))
        start_type = INTEGERS[seed % len(INTEGERS)]
        low, high = least(start_type), greatest(start_type)
        for i, j in [(0, 0), (1, 2), (3, 2), (low, high), (high, low)]:
            starts = [Tensor.of(start_type, [v], ()) for v in (i, j)]
            i, j = min(max(i, 0), 2), min(max(j, 0), 2)
            box = Tensor(dtype, x.bits[i : i + 2, j : j + 3])
            golden.case("dynamic_slice", [x, *starts], box, sizes=[2, 3])
            written = x.bits.copy()
            written[i : i + 2, j : j + 3] = update.bits
            operands = [x, update, *starts]
            golden.case("dynamic_update_slice", operands, Tensor(dtype, written))
    return golden


def combine(kind, dtype, old, new):
    """The bits of an element after an update."""
    if kind == "set":
        return new
    a, b = decode(dtype, old), decode(dtype, new)
    if kind in ("and", "or", "xor"):
        return {"and": old & new, "or": old | new, "xor": old ^ new}[kind]
    if dtype in COMPLEX:
        # Added part by part.
        part, width = COMPLEX[dtype], BITS[COMPLEX[dtype]]
        mask = (1 << width) - 1
        re = combine(kind, part, old & mask, new & mask)
        return re | combine(kind, part, old >> width, new >> width) << width
    if dtype not in FLOATS:
        values = {"add": a + b, "mul": a * b, "min": min(a, b), "max": max(a, b)}
        return encode_integer(dtype, values[kind])
    if kind in ("min", "max"):
        return encode_float(dtype, extreme(kind, a, b))
    word = NUMPY_FLOAT[dtype]
    both = word(a) + word(b) if kind == "add" else word(a) * word(b)
    return encode_float(dtype, float(both))


class Windows:
    """The windows of a gather or scatter: where each element of its result lies."""

    def __init__(self, shape, indices, sizes, dims):
        self.shape, self.sizes = shape, sizes
        offset, collapsed = dims["offset_dims"], dims["collapsed_slice_dims"]
        batching = dims.get("operand_batching_dims", [])
        of = dims.get("start_indices_batching_dims", [])
        index_map, vector = dims["start_index_map"], dims["index_vector_dim"]
        window = [a for a in range(len(shape)) if a not in collapsed + batching]
        values = np.array(indices.values(), dtype=object).reshape(indices.bits.shape)
        extents = [n for a, n in enumerate(indices.bits.shape) if a != vector]
        rank = len(extents) + len(offset)
        positions = [a for a in range(rank) if a not in offset]
        self.result = [0] * rank
        for a, n in zip(offset + positions, [sizes[a] for a in window] + extents):
            self.result[a] = n
        # Of each position: its place in the result, and where its window starts.
        self.starts = []
        for position in np.ndindex(*extents):
            start = [0] * len(shape)
            for k, a in enumerate(index_map):
                at = list(position)
                if vector < indices.bits.ndim:
                    at.insert(vector, k)
                start[a] = int(values[tuple(at)])
            for a, b in zip(batching, of):
                start[a] = position[b - (b > vector)]
            self.starts.append((position, start))
        self.window, self.offset, self.positions = window, offset, positions

    def elements(self):
        """Index in the result, index in the operand after clipping, whether in range."""
        room = [n - m for n, m in zip(self.shape, self.sizes)]
        for position, start in self.starts:
            inside = all(0 <= s <= r for s, r in zip(start, room))
            clipped = [min(max(s, 0), r) for s, r in zip(start, room)]
            for place in np.ndindex(*[self.sizes[a] for a in self.window]):
                at, into = list(clipped), [0] * len(self.result)
                for a, i in zip(self.window, place):
                    at[a] += i
                for a, i in zip(self.offset + self.positions, place + position):
                    into[a] = i
                yield tuple(into), tuple(at), inside


def as_scatter(dims):
    """The dimension numbers of a scatter as they are called there."""
    names = {
        "offset_dims": "update_window_dims",
        "collapsed_slice_dims": "inserted_window_dims",
        "start_indices_batching_dims": "scatter_indices_batching_dims",
        "start_index_map": "scatter_dims_to_operand_dims",
    }
    return {names.get(k, k): v for k, v in dims.items()}


def indexed():
    golden = Golden("Windows at indices.")

    def dims(offset, collapsed, index_map, vector, batching=([], [])):
        operand, of = batching
        batched = dict(operand_batching_dims=operand, start_indices_batching_dims=of)
        return dict(
            offset_dims=offset,
            collapsed_slice_dims=collapsed,
            **(batched if operand else {}),
            start_index_map=index_map,
            index_vector_dim=vector,
        )

    rows = ((4, 3), (6,), [1, 3], dims([1], [0], [0], 1))
    others = [
        ((5,), (3, 3), [1], dims([], [0], [0], 2)),
        ((4, 2), (1, 3, 1), [1, 2], dims([2], [0], [0], 2)),
        ((3, 4), (7, 2), [1, 1], dims([], [0, 1], [0, 1], 1)),
        ((3, 4), (2, 7), [1, 1], dims([], [0, 1], [1, 0], 0)),
        ((7,), (5,), [3], dims([1], [], [0], 1)),
        ((4, 5), (4, 2), [2, 3], dims([0, 1], [], [0, 1], 1)),
        ((3, 2, 2), (4,), [3, 1, 2], dims([0, 2], [1], [1], 1)),
        ((2, 5, 2), (2, 3), [1, 1, 2], dims([2], [1], [1], 2, ([0], [0]))),
        ((4, 3), (5, 3), [1, 1], dims([], [0], [0], 2, ([1], [1]))),
        ((3, 2), (0,), [1, 2], dims([1], [0], [0], 1)),
    ]

    def cases(dtype, index, pattern, kinds, seed):
        shape, at, sizes, numbers = pattern
        random = Random(seed)
        x = random.tensor(dtype, shape)
        near = [random.word() % 8 - (1 if index in SIGNED else 0) for _ in range(math.prod(at))]
        if near:
            near[-1] = greatest(index)
            near[0] = least(index)
        indices = Tensor.of(index, near, at)
        windows = Windows(shape, indices, sizes, numbers)
        fill = random.tensor(dtype, ())
        for mode in ("clip", "fill"):
            result = np.zeros(windows.result, dtype=x.bits.dtype)
            for into, element, inside in windows.elements():
                result[into] = x.bits[element] if inside or mode == "clip" else fill.bits
            if pattern is rows and index not in ("u64",):
                exact = np.array(indices.values(), dtype="i8")
                if mode == "clip" and (np.take(x.bits, exact, 0, mode="clip") != result).any():
                    sys.exit(f"gather {dtype}: numpy takes something else")
            operands = [x, indices] + ([fill] if mode == "fill" else [])
            attributes = dict(numbers, slice_sizes=sizes, mode=mode)
            golden.case("gather", operands, Tensor(dtype, result), **attributes)
        updates = random.tensor(dtype, windows.result)
        for kind, mode in product(kinds, ("drop", "clip")):
            result = x.bits.copy()
            for of, element, inside in windows.elements():
                if inside or mode == "clip":
                    old, new = int(result[element]), int(updates.bits[of])
                    result[element] = combine(kind, dtype, old, new)
            op = "scatter" if kind == "set" else f"scatter_{kind}"
            attributes = dict(as_scatter(numbers), mode=mode)
            golden.case(op, [x, indices, updates], Tensor(dtype, result), **attributes)

    for seed, dtype in enumerate(ALL):
        kinds = ["set"]
        if dtype not in ("f16", "bf16"):
            kinds += ["min", "max"]
            kinds += ["add", "mul"] if dtype != "bool" else []
            kinds += ["and", "or", "xor"] if dtype not in FLOATS else []
        cases(dtype, INTEGERS[seed % len(INTEGERS)], rows, kinds, seed)
    for seed, dtype in enumerate(COMPLEX):
        cases(dtype, INTEGERS[seed], rows, ["set", "add"], 50 + seed)
    for seed, pattern in enumerate(others):
        cases("f32", INTEGERS[seed % len(INTEGERS)], pattern, ["set", "add"], 100 + seed)
    # numpy's own words for the usual ones.
    x, at = Random(1).tensor("f32", (4, 3)), [3, 0, 3, 1]
    for ours, numpys in [("add", np.add), ("mul", np.multiply), ("min", np.minimum)]:
        v = Random(2).tensor("f32", (4, 3))
        theirs = x.floats().copy()
        numpys.at(theirs, at, v.floats())
        attributes = dict(as_scatter(rows[3]), mode="drop")
        indices = Tensor.of("i32", at)
        golden.case(f"scatter_{ours}", [x, indices, v], from_numpy("f32", theirs), **attributes)
    return golden


def columns(x, axes):
    """The shape of a reduction's result, and for each element what it combines."""
    kept = [a for a in range(x.bits.ndim) if a not in axes]
    moved = x.bits.transpose(kept + axes)
    shape = moved.shape[: len(kept)]
    rows = moved.reshape(math.prod(shape), -1) if x.bits.size else []
    empty = [[]] * (0 if x.bits.size else math.prod(shape))
    return shape, [[decode(x.dtype, int(b)) for b in row] for row in rows] or empty


def combined(kind, dtype, column):
    """A reduction of a list."""
    special = dtype in FLOATS and not all(map(math.isfinite, column))
    if kind in ("min", "max"):
        if not column:
            ends = (math.inf, -math.inf) if dtype in FLOATS else (greatest(dtype), least(dtype))
            ends = (1, 0) if dtype == "bool" else ends
            return ends[kind == "max"]
        if any(x != x for x in column):
            return math.nan
        key = (lambda x: (x, math.copysign(1, x))) if dtype in FLOATS else None
        return min(column, key=key) if kind == "min" else max(column, key=key)
    if special:
        wide = np.array(column, dtype=np.float64)
        return float(np.sum(wide) if kind == "sum" else np.prod(wide))
    if kind == "sum":
        return sum(map(Fraction, column)) if dtype in FLOATS else sum(column)
    if kind == "prod":
        if dtype not in FLOATS:
            return math.prod(column)
        sign = math.prod(math.copysign(1, x) for x in column)
        return math.prod(map(Fraction, column)) or math.copysign(0.0, sign)
    words = np.array([encode_integer(dtype, x) for x in column], dtype=f"u{BITS[dtype] // 8}")
    if not column:
        return -1 if kind == "and" else 0
    return int(NUMPY_BINARY[kind].reduce(words))


def reduce():
    golden = Golden("Reductions and arg-reductions.")
    nan, inf = math.nan, math.inf
    for seed, dtype in enumerate(ALL):
        x = Random(seed).tensor(dtype, (2, 3, 4))
        inputs = [(x, axes) for axes in ([], [0], [2], [0, 2])]
        inputs += [(Tensor.of(dtype, [], (0, 2)), [0])]
        if dtype in FLOATS:
            hard = [1.0, nan, 7.0, nan, -inf, inf, inf, 2.0, -inf, -inf, 0.0, 3.0]
            hard += [0.0, -0.0, 0.0, -0.0]
            inputs += [(Tensor.of(dtype, hard, (4, 4)), [1])]
        else:
            inputs += [(edges(dtype), [0])]
        kinds = ["min", "max"]
        kinds += ["sum", "prod"] if dtype != "bool" else []
        kinds += ["and", "or", "xor"] if dtype not in FLOATS else []
        for kind, (x, axes) in product(kinds, inputs):
            shape, rows = columns(x, axes)
            result = Tensor.of(dtype, [combined(kind, dtype, row) for row in rows], shape)
            ulp = 1 if dtype == "f64" and kind in ("sum", "prod") else 0
            golden.case(f"reduce_{kind}", [x], result, ulp=ulp, axes=axes)
        for index, (x, axes) in zip(["i32", "i64", "u8", "i16"], [inputs[1], inputs[2], inputs[5]]):
            shape, rows = columns(x, axes)
            for op, numpys in [("argmin", np.argmin), ("argmax", np.argmax)]:
                found = [int(numpys(np.array(row))) for row in rows]
                golden.case(op, [x], Tensor.of(index, found, shape), axis=axes[0])
    # A vector's tail: the only NaN is the last of many.
    zeros = Tensor.of("f32", [0.0] * 36 + [nan])
    for op in ["argmin", "argmax"]:
        golden.case(op, [zeros], Tensor.of("i32", [36], ()), axis=0)
    return golden


def windows(x, size, stride, base_dilation, window_dilation, low, high):
    """The shape of the windows of an array, and what is in each: numpy's sliding windows
    over places, with gaps and padding left out."""
    if x.bits.ndim == 0:
        return (), [x.values()]
    places = np.arange(x.bits.size).reshape(x.bits.shape)
    field = padded(places, -1, low, high, [d - 1 for d in base_dilation])
    reach = [(n - 1) * d + 1 for n, d in zip(size, window_dilation)]
    if any(r > n for r, n in zip(reach, field.shape)):
        shape = [max(0, (n - r) // s + 1) for n, r, s in zip(field.shape, reach, stride)]
        return shape, [[] for _ in range(math.prod(shape))]
    views = np.lib.stride_tricks.sliding_window_view(field, reach)
    steps = [slice(None, None, n) for n in [*stride, *window_dilation]]
    views = views[tuple(steps)]
    shape = views.shape[: len(size)]
    values = x.values()
    rows = views.reshape(math.prod(shape), -1)
    return shape, [[values[i] for i in row if i >= 0] for row in rows]


def log_sum_exp(column):
    """The logarithm of the sum of exponentials, to many digits."""
    if any(x != x for x in column) or math.inf in column:
        return math.nan if any(x != x for x in column) else math.inf
    if all(x == -math.inf for x in column):
        return -math.inf
    exact = mpmath.log(mpmath.fsum(mpmath.exp(x) for x in column if x != -math.inf))
    return Fraction(*mpmath.libmp.to_rational(exact._mpf_))


def fold():
    golden = Golden("Windows and running results.")
    nan, inf = math.nan, math.inf
    geometries = [
        ((3, 5), [2, 2], [1, 2], [1, 1], [1, 1], [0, 1], [0, 1]),
        ((6,), [3], [2], [2], [1], [0], [0]),
        ((4,), [2], [1], [3], [2], [2], [-1]),
        ((3, 4), [1, 3], [1, 1], [1, 1], [3, 2], [-1, 2], [1, 3]),
        ((2,), [3], [1], [1], [1], [0], [0]),
        ((0,), [2], [1], [1], [1], [1], [2]),
        ((), [], [], [], [], [], []),
    ]
    for seed, dtype in enumerate(ALL):
        whole = dtype in ("f32", "i32")
        some = geometries if whole else geometries[:3]
        for turn, (shape, size, stride, base, dilation, low, high) in enumerate(some):
            x = Random(seed + 50 * turn).tensor(dtype, shape)
            if dtype in FLOATS and turn == 1:
                x = Tensor.of(dtype, [1.0, nan, -0.0, 0.0, -inf, inf])
            names = ["window", "stride", "base_dilation", "window_dilation", "low", "high"]
            attributes = dict(zip(names, [size, stride, base, dilation, low, high]))
            if turn % 2 == 0 and low == [0] * len(low) == high:
                del attributes["low"], attributes["high"]
            kinds = ["min", "max"]
            kinds += ["sum", "prod"] if dtype != "bool" else []
            kinds += ["and", "or", "xor"] if dtype not in FLOATS else []
            for kind in kinds:
                result, rows = windows(x, size, stride, base, dilation, low, high)
                values = [combined(kind, dtype, row) for row in rows]
                ulp = 1 if dtype == "f64" and kind in ("sum", "prod") else 0
                op = f"reduce_window_{kind}"
                golden.case(op, [x], Tensor.of(dtype, values, result), ulp=ulp, **attributes)

        axes = range(3) if whole else [1]
        inputs = [(Random(seed).tensor(dtype, (2, 3, 4)), axis) for axis in axes]
        if whole:
            inputs += [(Tensor.of(dtype, [], (2, 0)), 1), (Random(seed).tensor(dtype, (40,)), 0)]
        if dtype in FLOATS:
            hard = [-0.0, 0.0, -inf, nan, 1.0, -inf, 3.0, inf, 7.0, -inf, -inf, -0.0]
            inputs += [(Tensor.of(dtype, hard, (3, 4)), 1)]
        kinds = ["min", "max"]
        kinds += ["sum", "prod"] if dtype != "bool" else []
        kinds += ["logsumexp"] if dtype in FLOATS else []
        for kind, (x, axis), reverse in product(kinds, inputs, [False, True]):
            places = np.arange(x.bits.size).reshape(x.bits.shape)
            ordered = np.moveaxis(np.flip(places, axis) if reverse else places, axis, -1)
            rows = ordered.reshape(-1, x.bits.shape[axis]) if x.bits.size else []
            values, result = x.values(), [0] * x.bits.size
            for row in rows:
                for i, place in enumerate(row):
                    column = [values[j] for j in row[: i + 1]]
                    if kind == "logsumexp":
                        result[place] = log_sum_exp(column)
                    else:
                        result[place] = combined(kind, dtype, column)
            attributes = dict(axis=axis) | (dict(direction="reverse") if reverse else {})
            result = Tensor.of(dtype, result, x.bits.shape)
            if not reverse and kind in ("min", "max") and dtype not in ("bf16",):
                theirs = {"min": np.minimum, "max": np.maximum}[kind]
                given = np.array(x.values()).reshape(x.bits.shape)
                if not np.array_equal(
                    theirs.accumulate(given, axis),
                    np.array(result.values()).reshape(x.bits.shape),
                    equal_nan=dtype in FLOATS,
                ):
                    sys.exit(f"cum{kind} {dtype}: numpy accumulates something else")
            ulp = 2 if dtype == "f64" and kind not in ("min", "max") else 0
            golden.case(f"cum{kind}", [x], result, ulp=ulp, **attributes)
    return golden


def contraction():
    golden = Golden("Sums of products.")
    wider = {"f16": "f32", "bf16": "f32", "f32": "f64", "i8": "i32", "u8": "i32", "i32": "i64"}
    cases = [
        ("mk,kn->mn", (3, 5), (5, 4), dict(lhs_contract=[1], rhs_contract=[0])),
        ("km,nk->mn", (5, 3), (4, 5), dict(lhs_contract=[0], rhs_contract=[1])),
        ("k,k->", (7,), (7,), dict(lhs_contract=[0], rhs_contract=[0])),
        ("m,n->mn", (3,), (2,), dict(lhs_contract=[], rhs_contract=[])),
        ("bmk,bkn->bmn", (2, 3, 5), (2, 5, 2),
         dict(lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1])),
        ("mbk,knb->bmn", (3, 2, 4), (4, 2, 2),
         dict(lhs_batch=[1], rhs_batch=[2], lhs_contract=[2], rhs_contract=[0])),
        ("mij,jin->mn", (2, 3, 4), (4, 3, 2), dict(lhs_contract=[1, 2], rhs_contract=[1, 0])),
        ("mk,kn->mn", (2, 0), (0, 3), dict(lhs_contract=[1], rhs_contract=[0])),
    ]  # fmt: skip
    for seed, dtype in enumerate(NUMBERS):
        random = Random(seed)
        for labels, left, right, attributes in cases:
            a, b = random.tensor(dtype, left), random.tensor(dtype, right)
            exact_sum = np.einsum(labels, a.objects(), b.objects())
            shape = np.einsum(labels, np.zeros(left), np.zeros(right)).shape
            values = np.array(exact_sum, dtype=object).ravel()
            for to in [dtype, wider.get(dtype)]:
                if to is None:
                    continue
                numbers = [Fraction(v) if to in FLOATS else int(v) for v in values]
                result, ulp = Tensor.of(to, numbers, shape), int(to == "f64")
                golden.case("dot_general", [a, b], result, ulp=ulp, **attributes)
    return golden


def reorder(x, places, axis):
    return Tensor(x.dtype, np.take_along_axis(x.bits, places, axis))


def sort():
    """numpy sorts NaN last and keeps equal zeros in order, as Kiln does, if asked to be
    stable; where several keys decide, or the order runs down, it is Python that sorts."""
    golden = Golden("Sorting, and the greatest elements.")
    for seed, dtype in enumerate(ALL):
        random = Random(seed)
        # Every edge twice, in no order, so that most elements have an equal.
        words = [int(b) for b in edges(dtype).bits] * 2
        for i in range(len(words) - 1, 0, -1):
            j = random.word() % (i + 1)
            words[i], words[j] = words[j], words[i]
        special = Tensor(dtype, words)
        box = Tensor(dtype, random.tensor(dtype, (3, 5, 2)).bits)
        for x, axis in [(special, 0), (box, 0), (box, 1), (box, 2)]:
            signed = x.bits.view(x.bits.dtype.str.replace("u", "i"))
            data = x.floats() if dtype in FLOATS else signed if dtype in SIGNED else x.bits
            up = np.argsort(data, axis=axis, kind="stable")
            golden.case("sort", [x], reorder(x, up, axis), axis=axis, keys=1)
            # The last in ascending order of the row backwards comes first.
            length = x.bits.shape[axis]
            down = length - 1 - np.flip(
                np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis
            )
            golden.case(
                "sort", [x], reorder(x, down, axis), axis=axis, keys=1, descending=[0]
            )
            if axis != x.bits.ndim - 1:
                continue
            for k in sorted({0, 1, length // 2, length}):
                best = down[..., :k]
                values = np.take_along_axis(x.bits, best, axis)
                golden.case("top_k", [x], Tensor(dtype, values), k=k)
                places = Tensor("i32", best.astype(np.uint32))
                golden.case("top_k", [x], places, k=k, result=1)
        # By a few distinct first keys, then by the second downwards; the third is carried.
        n = len(words)
        first = Tensor.of("u8", [random.word() % 3 for _ in range(n)])
        carried = Tensor.of("i16", range(n))
        rank = {w: r for r, w in enumerate(sorted(set(words), key=lambda w: key(dtype, w)))}
        level = {w: min(r for v, r in rank.items() if key(dtype, v) == key(dtype, w)) for w in rank}
        places = sorted(range(n), key=lambda i: (int(first.bits[i]), -level[words[i]]))
        for result, x in enumerate([first, special, carried]):
            golden.case(
                "sort", [first, special, carried], reorder(x, np.array(places), 0),
                axis=0, keys=2, descending=[1], result=result,
            )  # fmt: skip
    return golden


def key(dtype, bits):
    """Orders elements as C5 says: zeros are equal, NaNs are equal and last."""
    x = decode(dtype, bits)
    return (1, 0) if x != x else (0, x)


def threefry2x32(key, counter):
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) on Python's integers."""
    word = 0xFFFFFFFF
    keys = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x0, x1 = (counter[0] + keys[0]) & word, (counter[1] + keys[1]) & word
    for group in range(5):
        for turn in [(13, 15, 26, 6), (17, 29, 16, 24)][group % 2]:
            x0 = (x0 + x1) & word
            x1 = ((x1 << turn | x1 >> (32 - turn)) & word) ^ x0
        x0 = (x0 + keys[(group + 1) % 3]) & word
        x1 = (x1 + keys[(group + 2) % 3] + group + 1) & word
    return x0, x1


def random():
    golden = Golden("Random bits.")
    # What Random123, the authors' own implementation, ships as known answers.
    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, counter, words in known:
        if threefry2x32(key, counter) != words:
            sys.exit(f"threefry2x32 of {key}, {counter} is not {words}")
    numbers = Random(0)
    inputs = [(*key, *counter) for key, counter, _ in known]
    inputs += [tuple(numbers.word() for _ in range(4)) for _ in range(20)]
    operands = [Tensor.of("u32", column) for column in zip(*inputs)]
    both = list(zip(*[threefry2x32(i[:2], i[2:]) for i in inputs]))
    for word in (0, 1):
        golden.case("threefry2x32", operands, Tensor.of("u32", both[word]), word=word)
    return golden


def next_after(dtype, a, b):
    """The bits of the float after `a` on the way to `b`."""
    x, y = decode(dtype, a), decode(dtype, b)
    if math.isnan(x) or math.isnan(y):
        return encode_float(dtype, math.nan)
    if x == y:
        return b
    place = ordinal(dtype, a) + (1 if y > x else -1)
    top = 1 << (BITS[dtype] - 1)
    if place == 0:
        return 0 if x > 0 else top
    return place if place > 0 else top - place


def reduced(dtype, x, exponent_bits, mantissa_bits):
    """A float by way of a smaller format, in exact arithmetic."""
    if not math.isfinite(x) or x == 0:
        return x
    digits, least_exponent = PRECISION[dtype]
    exact_x = abs(Fraction(x))
    exponent = exact_x.numerator.bit_length() - exact_x.denominator.bit_length()
    if Fraction(2) ** exponent > exact_x:
        exponent -= 1
    exponent = max(exponent, least_exponent)
    kept = min(mantissa_bits, digits - 1)
    unit = Fraction(2) ** (exponent - kept)
    scaled = exact_x / unit
    if kept == 0 and scaled == Fraction(3, 2):
        # The last bit that is kept is the exponent's.
        whole = 2 if (exponent - least_exponent) % 2 == 0 else 1
    else:
        whole = round(scaled)
    result = whole * unit
    own_bits = BITS[dtype] - digits
    if exponent_bits < own_bits:
        bias = (1 << (exponent_bits - 1)) - 1
        if result >= Fraction(2) ** (bias + 1):
            result = math.inf
        elif result < Fraction(2) ** (1 - bias):
            result = 0.0
    value = decode(dtype, encode_float(dtype, result))
    return math.copysign(value, x)


def bits():
    golden = Golden("Functions that look at bits.")
    for dtype in INTEGERS:
        x = edges(dtype)
        width = BITS[dtype]
        patterns = [int(b) for b in x.bits]
        golden.case("population_count", [x], Tensor.of(dtype, [b.bit_count() for b in patterns]))
        # numpy counts the bits of magnitudes.
        if dtype in UNSIGNED:
            assert list(np.bitwise_count(x.bits)) == [b.bit_count() for b in patterns]
        zeros = [width - b.bit_length() for b in patterns]
        golden.case("count_leading_zeros", [x], Tensor.of(dtype, zeros))
    for dtype in FLOATS:
        x = edges(dtype)
        away = [v if not math.isfinite(v) or v == 0 else
                math.copysign(math.floor(abs(Fraction(v)) + Fraction(1, 2)), v)
                for v in x.values()]  # fmt: skip
        golden.case("round_away", [x], Tensor.of(dtype, away))
        golden.case("trunc", [x], from_numpy(dtype, np.trunc(x.floats())))
        a, b = pairs(dtype)
        pairs_of_bits = zip(a.bits.ravel(), b.bits.ravel())
        after = Tensor(dtype, [next_after(dtype, int(p), int(q)) for p, q in pairs_of_bits])
        if dtype != "bf16":
            numpys = from_numpy(dtype, np.nextafter(a.floats(), b.floats()))
            must_agree("nextafter", dtype, after, numpys, 0)
        golden.case("nextafter", [a, b], after)
        random = Random(11)
        for x in (edges(dtype), random.tensor(dtype, [24])):
            for e, m in [(8, 7), (5, 10), (8, 23), (4, 3), (2, 1), (1, 5), (5, 0), (11, 60)]:
                result = Tensor.of(dtype, [reduced(dtype, v, e, m) for v in x.values()])
                if (e, m) == (5, 10):
                    # numpy's half keeps its subnormal numbers, which this has not.
                    half = x.floats().astype(np.float16).astype(np.float64)
                    half = np.where(np.abs(half) < 2.0**-14, np.copysign(0, half), half)
                    if dtype not in ("f16", "bf16"):
                        same = half == result.floats()
                        assert np.all(same | np.isnan(half)), (dtype, x.values())
                golden.case("reduce_precision", [x], result, exponent_bits=e, mantissa_bits=m)
    for source, to in product(NUMBERS, NUMBERS):
        if BITS[source] == BITS[to]:
            x = edges(source)
            golden.case("bitcast_convert", [x], Tensor(to, x.bits))
    return golden


def log_gamma(x):
    if math.isinf(x) or x <= 0 and x == math.floor(x):
        return math.inf
    if x > 0:
        return exact(mpmath.loggamma(mpmath.mpf(x)))
    return exact(mpmath.log(abs(mpmath.gamma(mpmath.mpf(x)))))


def digamma(x):
    if math.isinf(x):
        return x if x > 0 else math.nan
    if x <= 0 and x == math.floor(x):
        return math.nan
    return exact(mpmath.digamma(mpmath.mpf(x)))


def erf_inv(x):
    """By Halley's method, next to 1 on the complement."""
    if x == 0 or abs(x) >= 1:
        return x if x == 0 else math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    rest = 1 - mpmath.mpf(abs(x))
    y = mpmath.sqrt(-mpmath.log(rest)) if rest < 0.1 else mpmath.mpf(abs(x))
    for _ in range(60):
        erf = mpmath.erf(y) - abs(mpmath.mpf(x)) if rest > 0.5 else rest - mpmath.erfc(y)
        step = erf / (2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y))
        step /= 1 + y * step
        y -= step
        if abs(step) < y * mpmath.mpf(2) ** -150:
            return exact(mpmath.sign(x) * y)
    raise ArithmeticError(x)


def erfc(x):
    if abs(x) > 1000:
        return 0.0 if x > 0 else 2.0
    return exact(mpmath.erfc(mpmath.mpf(x)))


def in_unit(f):
    return lambda x: math.nan if abs(x) > 1 else x if f(0) == 0 and x == 0 else exact(f(mpmath.mpf(x)))


def tangent(x):
    return math.nan if math.isinf(x) else x if x == 0 else exact(mpmath.tan(mpmath.mpf(x)))


def arctangent(x):
    return x if x == 0 else exact(mpmath.atan(mpmath.mpf(x)))


# What they are, and what numpy or C says, if either does.
SPECIAL_FUNCTIONS = {
    "tan": (tangent, np.tan),
    "asin": (in_unit(mpmath.asin), np.arcsin),
    "acos": (in_unit(mpmath.acos), np.arccos),
    "atan": (arctangent, np.arctan),
    "erfc": (erfc, np.vectorize(math.erfc)),
    "erf_inv": (erf_inv, None),
    "lgamma": (log_gamma, None),
    "digamma": (digamma, None),
}


def angle(y, x):
    if any(math.isnan(v) or math.isinf(v) or v == 0 for v in (x, y)):
        return math.atan2(y, x)
    return exact(mpmath.atan2(mpmath.mpf(y), mpmath.mpf(x)))


def special():
    golden = Golden("Inverse and special functions.")
    for dtype in FLOATS:
        random = Random(13)
        near = Tensor.of(dtype, [8 * random.unit() - 4 for _ in range(24)])
        unit = Tensor.of(dtype, [2 * random.unit() - 1 for _ in range(12)])
        for op, (f, numpys) in SPECIAL_FUNCTIONS.items():
            for x in (edges(dtype), near, unit):
                values = x.values()
                result = Tensor.of(dtype, [v if math.isnan(v) else f(v) for v in values])
                if numpys is not None:
                    wide = numpys(np.array(values))
                    must_agree(op, dtype, result, from_numpy(dtype, wide), 2)
                golden.case(op, [x], result, ulp=int(dtype == "f64"))
        a, b = pairs(dtype)
        result = Tensor.of(dtype, [angle(y, x) for y, x in zip(a.values(), b.values())])
        wide = np.arctan2(np.array(a.values()), np.array(b.values()))
        must_agree("atan2", dtype, result, from_numpy(dtype, wide), 2)
        golden.case("atan2", [a, b], result, ulp=int(dtype == "f64"))
    return golden


# ------------------------------------------------------------------------ complex


def complex_edges(dtype):
    """Complex numbers at which functions change their ways."""
    part = COMPLEX[dtype]
    tiny, _, normal, top = float_limits(part)
    few = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    values = list(product(few, few))
    scales = [tiny, 3 * tiny, normal, 1e-20, 0.7, 3.0, 50.0, 1e20, top]
    for x, y in product(map(float, scales), (1e-3, 0.6)):
        values += [(x, x * y), (-x * y, x)]
    # About |z| = 1, where the logarithm cancels.
    values += [(math.cos(k), math.sin(k)) for k in range(1, 6)]
    values += [(1.0 + 2.0**-e, 2.0 ** (-e // 2)) for e in (10, 20, 23)]
    random = Random(BITS[dtype])
    values += [(8 * random.unit() - 4, 8 * random.unit() - 4) for _ in range(12)]
    return Tensor(dtype, list(dict.fromkeys(encode(dtype, v) for v in values)))


def is_finite(z):
    return math.isfinite(z.real) and math.isfinite(z.imag)


def rounded(z):
    """An mpmath number as a pair of parts, exact or special."""
    z = mpmath.mpc(z)
    return exact(z.real), exact(z.imag)


def is_special(z, w=None):
    """Whether the rules for infinities, NaN and zeros decide: those are compared with
    `cmath` of C's Annex G, in a test beside `eval`."""
    return not is_finite(z) or (w is not None and not is_finite(w))


COMPLEX_FUNCTIONS = {
    "exp": mpmath.exp,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
}


def annex_g(op, z):
    """What C's Annex G says, by way of Python's `cmath`, which follows it."""
    try:
        return {"exp": cmath.exp, "sqrt": cmath.sqrt}[op](z)
    except (ValueError, OverflowError):
        return None


def signed_zeros(op, z, value):
    """mpmath has no zeros with a sign, and the sign of an imaginary zero says on which
    side of a cut a number is: signs are those of the machine's function."""
    wide = annex_g(op, z)
    if wide is None:
        return value

    def with_sign(v, w):
        return w if v == 0 and w == 0 else -v if (v < 0) != (w < 0) else v

    return with_sign(value[0], wide.real), with_sign(value[1], wide.imag)


def complex_numbers():
    golden = Golden("Complex numbers.")
    for seed, (dtype, part) in enumerate(COMPLEX.items()):
        z = complex_edges(dtype)
        values = z.values()
        random = Random(seed)
        golden.case("real", [z], Tensor.of(part, [v.real for v in values]))
        golden.case("imag", [z], Tensor.of(part, [v.imag for v in values]))
        re, im = Tensor.of(part, [v.real for v in values]), Tensor.of(part, [v.imag for v in values])
        golden.case("complex", [re, im], z)
        golden.case("neg", [z], Tensor.of(dtype, [(-v.real, -v.imag) for v in values]))
        golden.case("is_finite", [z], Tensor("bool", [int(is_finite(v)) for v in values]))

        def magnitude(v):
            if math.isinf(v.real) or math.isinf(v.imag):
                return math.inf
            if v != v:
                return math.nan
            return exact(mpmath.hypot(v.real, v.imag))

        ulp = 1 if dtype == "c128" else 0
        golden.case("abs", [z], Tensor.of(part, map(magnitude, values)), ulp=ulp)
        finite = Tensor.of(dtype, [v for v in values if is_finite(v)])
        signs = [
            rounded(mpmath.mpc(v) / mpmath.hypot(v.real, v.imag)) if v else (v.real, v.imag)
            for v in finite.values()
        ]
        signs = [
            tuple(math.copysign(0.0, p) if s == 0 else s for s, p in zip(pair, (v.real, v.imag)))
            for pair, v in zip(signs, finite.values())
        ]
        golden.case("sign", [finite], Tensor.of(dtype, signs), ulp=2 * ulp)
        for op, function in COMPLEX_FUNCTIONS.items():
            limit = 700 if dtype == "c128" else 80
            inputs = [v for v in finite.values() if op != "exp" or abs(v.real) < limit]
            inputs = [v for v in inputs if op != "rsqrt" or v != 0]
            if op == "exp":
                # The sine of a huge angle takes as many digits as the angle has.
                inputs = [v for v in inputs if abs(v.imag) < 1e6]
            if op == "rsqrt":
                inputs = [v for v in inputs if v.imag != 0]
            results = [rounded(function(mpmath.mpc(v))) for v in inputs]
            if op in ("exp", "sqrt"):
                results = [signed_zeros(op, v, r) for v, r in zip(inputs, results)]
            operand = Tensor.of(dtype, inputs)
            golden.case(op, [operand], Tensor.of(dtype, results), ulp=3 if dtype == "c128" else 1)

        # Infinities and NaN where C, and so Python, says what comes of them.
        parts = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
        for op in ("exp", "sqrt"):
            inputs, results = [], []
            for x, y in product(parts, parts):
                result = annex_g(op, complex(x, y))
                # The signs of zeros that Annex G leaves open.
                open_sign = op == "exp" and x == -math.inf and not math.isfinite(y)
                if result is not None and not open_sign and is_special(complex(x, y)):
                    inputs.append((x, y))
                    results.append((result.real, result.imag))
            golden.case(op, [Tensor.of(dtype, inputs)], Tensor.of(dtype, results), ulp=1)

        a, b = random.tensor(dtype, (40,)), random.tensor(dtype, (40,))
        pairs = list(zip(a.values(), b.values()))
        # Sums of parts that are exact in the wider type, rounded once.
        for op, sign in (("add", 1), ("sub", -1)):
            sums = [
                (Fraction(x.real) + sign * Fraction(y.real), Fraction(x.imag) + sign * Fraction(y.imag))
                for x, y in pairs
            ]
            golden.case(op, [a, b], Tensor.of(dtype, sums))
        kind = {"c64": np.float32, "c128": np.float64}[dtype]
        products = []
        for x, y in pairs:
            p, q, r, s = map(kind, (x.real, x.imag, y.real, y.imag))
            products.append((float(p * r - q * s), float(p * s + q * r)))
        golden.case("mul", [a, b], Tensor.of(dtype, products))
        quotients = [rounded(mpmath.mpc(x) / mpmath.mpc(y)) for x, y in pairs]
        golden.case("div", [a, b], Tensor.of(dtype, quotients), ulp=ulp)
        # Operands whose squares overflow or vanish.
        tiny, _, normal, top = map(float, float_limits(part))
        few = [complex(top, top), complex(top, 1.0), complex(normal, normal), complex(1.0, tiny)]
        few += [complex(2.0, -3.0), complex(0.0, top / 4), complex(-normal * 8, 0.0)]
        left, right, results = [], [], []
        for x, y in product(few, few):
            quotient = mpmath.mpc(x) / mpmath.mpc(y)
            largest = max(abs(quotient.real), abs(quotient.imag))
            # Subnormal results lose the digits that units are counted in.
            if normal * 1e3 < largest < top and quotient.real != 0 and quotient.imag != 0:
                left.append(x), right.append(y), results.append(rounded(quotient))
        x, y = Tensor.of(dtype, left), Tensor.of(dtype, right)
        golden.case("div", [x, y], Tensor.of(dtype, results), ulp=1)

        equal = [0.0, -0.0, 1.0, math.inf, math.nan]
        both = list(product(product(equal, equal), product(equal, equal)))
        x, y = (Tensor.of(dtype, [complex(*pair[k]) for pair in both]) for k in (0, 1))
        eq = [int(v == w) for v, w in zip(x.values(), y.values())]
        golden.case("eq", [x, y], Tensor("bool", eq))
        golden.case("ne", [x, y], Tensor("bool", [1 - e for e in eq]))
        chooser = Tensor("bool", np.arange(len(both)) % 3 == 0)
        chosen = [v if c else w for c, v, w in zip(chooser.bits, x.bits, y.bits)]
        golden.case("select", [chooser, x, y], Tensor(dtype, np.array(chosen, x.bits.dtype)))

        for source in ALL:
            x = Tensor(source, edges(source).bits[:12])
            wide = [(converted(v, part), 0.0) for v in x.values()]
            golden.case("convert", [x], Tensor.of(dtype, wide))
        for source in COMPLEX:
            x = Tensor(source, complex_edges(source).bits[::3])
            same = [(v.real, v.imag) for v in x.values()]
            golden.case("convert", [x], Tensor.of(dtype, same))
        golden.case("iota", [], Tensor.of(dtype, map(complex, range(33))), axis=0)

        x = random.tensor(dtype, (2, 3, 4))
        for axes in ([], [0], [2], [0, 2]):
            kept = [k for k in range(3) if k not in axes]
            rows = x.bits.transpose(kept + axes).reshape([x.bits.shape[k] for k in kept] + [-1])
            shape, rows = rows.shape[:-1], rows.reshape(-1, rows.shape[-1])
            numbers = [[decode(dtype, int(b)) for b in row] for row in rows]
            sums = [
                (sum(Fraction(v.real) for v in row), sum(Fraction(v.imag) for v in row))
                for row in numbers
            ]
            golden.case("reduce_sum", [x], Tensor.of(dtype, sums, shape), ulp=ulp, axes=axes)
            prods = [rounded(mpmath.fprod(mpmath.mpc(v) for v in row)) for row in numbers]
            result = Tensor.of(dtype, prods, shape)
            golden.case("reduce_prod", [x], result, ulp=16 * ulp + 1, axes=axes)
        for shape_a, shape_b, labels, attributes in [
            ((3, 5), (5, 4), "mk,kn->mn", dict(lhs_contract=[1], rhs_contract=[0])),
            ((2, 3, 5), (2, 5, 2), "bmk,bkn->bmn",
             dict(lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1])),
        ]:  # fmt: skip
            a, b = random.tensor(dtype, shape_a), random.tensor(dtype, shape_b)
            parts = {}
            for name, t in (("a", a), ("b", b)):
                for part_name in ("real", "imag"):
                    values = [Fraction(getattr(v, part_name)) for v in t.values()]
                    array = np.empty(len(values), dtype=object)
                    array[:] = values
                    parts[name, part_name] = array.reshape(t.bits.shape)
            re = np.einsum(labels, parts["a", "real"], parts["b", "real"])
            re = re - np.einsum(labels, parts["a", "imag"], parts["b", "imag"])
            im = np.einsum(labels, parts["a", "real"], parts["b", "imag"])
            im = im + np.einsum(labels, parts["a", "imag"], parts["b", "real"])
            for to in COMPLEX:
                if BITS[to] < BITS[dtype]:
                    continue
                result = Tensor.of(to, list(zip(re.ravel(), im.ravel())), re.shape)
                ulp_to = int(to == "c128")
                golden.case("dot_general", [a, b], result, ulp=ulp_to, **attributes)
    return golden


complex_numbers.__name__ = "complex"

FAMILIES = [
    unary, binary, bits, special, choose, convert, generate, movement, dynamic, indexed, reduce,
    fold, contraction, sort, random, complex_numbers,
]  # fmt: skip


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="numpy's answers for Kiln's ops")
    parser.add_argument(
        "--verify",
        nargs="?",
        const=here,
        type=pathlib.Path,
        metavar="DIR",
        help="compare with the files in DIR, or beside this script",
    )
    folder = parser.parse_args().verify
    mpmath.mp.prec = 200
    np.seterr(all="ignore")
    stale = []
    for family in FAMILIES:
        path = (folder or here) / f"{family.__name__}.golden"
        text = family().finish().encode()
        if folder is None:
            path.write_bytes(text)
        elif not path.exists() or path.read_bytes() != text:
            stale.append(str(path))
    if stale:
        sys.exit("not what numpy says now: " + ", ".join(stale))


if __name__ == "__main__":
    main()
