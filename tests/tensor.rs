//! The methods of `Tensor`: values against closed forms, shapes, and mistakes.

use kiln::prelude::*;
use kiln::{DotDims, HostElement, Index};

fn v<T: HostElement>(t: &Tensor) -> Vec<T> {
    t.to_vec().unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn close(t: &Tensor, expected: &[f32]) {
    let got: Vec<f32> = v(&t.astype(F32));
    assert_eq!(got.len(), expected.len());
    for (g, e) in got.iter().zip(expected) {
        let near = (g - e).abs() <= 1e-5 * e.abs().max(1.0) || g == e || (g.is_nan() && e.is_nan());
        assert!(near, "{got:?} is not {expected:?}");
    }
}

fn message(t: &Tensor) -> String {
    t.error().unwrap_or_else(|| panic!("{t:?} is no mistake")).to_string()
}

fn iota(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product(), F32).reshape(shape)
}

#[test]
fn elementwise() {
    let x = Tensor::from([-2.0f32, -0.5, 0.0, 0.5, 2.0]);
    close(&x.abs(), &[2.0, 0.5, 0.0, 0.5, 2.0]);
    close(&x.sign(), &[-1.0, -1.0, 0.0, 1.0, 1.0]);
    close(&x.floor(), &[-2.0, -1.0, 0.0, 0.0, 2.0]);
    close(&x.ceil(), &[-2.0, 0.0, 0.0, 1.0, 2.0]);
    close(&x.round(), &[-2.0, 0.0, 0.0, 0.0, 2.0]);
    close(&x.relu(), &[0.0, 0.0, 0.0, 0.5, 2.0]);
    close(&x.square(), &[4.0, 0.25, 0.0, 0.25, 4.0]);
    close(&x.powi(3), &[-8.0, -0.125, 0.0, 0.125, 8.0]);
    close(&x.powi(0), &[1.0; 5]);
    close(&(&x + 4.0).powi(-1), &[0.5, 1.0 / 3.5, 0.25, 1.0 / 4.5, 1.0 / 6.0]);
    close(&x.clip(-1.0, 1.0), &[-1.0, -0.5, 0.0, 0.5, 1.0]);
    close(&x.clamp(-1.0, 1.0), &[-1.0, -0.5, 0.0, 0.5, 1.0]);
    close(&x.sigmoid(), &[0.119203, 0.377541, 0.5, 0.622459, 0.880797]);
    close(&x.silu(), &[-0.238406, -0.188770, 0.0, 0.311230, 1.761594]);
    close(&x.gelu(), &[-0.045402, -0.154286, 0.0, 0.345714, 1.954598]);
    close(&x.gelu_exact(), &[-0.045500, -0.154269, 0.0, 0.345731, 1.9545]);
    close(&(-&x % 1.5), &[0.5, 0.5, 0.0, -0.5, -0.5]);
    close(&x.exp2(), &[0.25, 0.5f32.sqrt(), 1.0, 2f32.sqrt(), 4.0]);
    close(&x.expm1(), &[-0.864665, -0.393469, 0.0, 0.648721, 6.389056]);
    close(&(&x + 2.5).log1p(), &[0.405465, 1.098612, 1.252763, 1.386294, 1.704748]);
    close(&(&x + 2.5).log2(), &[-1.0, 1.0, 1.321928, 1.584963, 2.169925]);
    close(
        &(&x + 2.5).log10(),
        &[-std::f32::consts::LOG10_2, std::f32::consts::LOG10_2, 0.39794, 0.477121, 0.653213],
    );
    close(&x.cbrt(), &[-1.259921, -0.793701, 0.0, 0.793701, 1.259921]);
    close(&x.logistic(), &[0.119203, 0.377541, 0.5, 0.622459, 0.880797]);
    close(&x.sinh(), &[-3.62686, -0.521095, 0.0, 0.521095, 3.62686]);
    close(&x.cosh(), &[3.762196, 1.127626, 1.0, 1.127626, 3.762196]);
    close(&x.asinh(), &[-1.443635, -0.481212, 0.0, 0.481212, 1.443635]);
    close(&(&x + 3.0).acosh(), &[0.0, 1.566799, 1.762747, 1.924847, 2.292432]);
    close(&(&x * 0.25).atanh(), &[-0.549306, -0.125657, 0.0, 0.125657, 0.549306]);
    close(&x.hypot(-1.5), &[2.5, 1.581139, 1.5, 1.581139, 2.5]);
    close(&x.logaddexp(0.5), &[0.578889, 0.813262, 0.974077, 1.193147, 2.201413]);
    close(&x.logaddexp2(0.5), &[0.734841, 1.084963, 1.271553, 1.5, 2.436752]);
    assert_eq!(v::<bool>(&x.gt(0.0)), [false, false, false, true, true]);
    assert_eq!(v::<bool>(&!x.le(0.0)), [false, false, false, true, true]);
    let odd = Tensor::from([f32::NAN, f32::INFINITY, 1.0]);
    assert_eq!(v::<bool>(&odd.isnan()), [true, false, false]);
    assert_eq!(v::<bool>(&odd.isinf()), [false, true, false]);
    assert_eq!(v::<bool>(&odd.isfinite()), [false, false, true]);
}

/// The definitions, in `f64`, far from where they would overflow.
#[test]
fn activations() {
    type Activation = (fn(&Tensor) -> Tensor, fn(f64) -> f64);
    let softplus = |x: f64| x.exp().ln_1p();
    let table: [Activation; 17] = [
        (Tensor::relu, |x| x.max(0.0)),
        (Tensor::relu6, |x| x.clamp(0.0, 6.0)),
        (|x| x.leaky_relu(0.01), |x| if x < 0.0 { 0.01 * x } else { x }),
        (|x| x.elu(0.7), |x| if x < 0.0 { 0.7 * x.exp_m1() } else { x }),
        (Tensor::selu, |x| {
            1.0507009873554805 * if x < 0.0 { 1.6732632423543772 * x.exp_m1() } else { x }
        }),
        (|x| x.celu(2.0), |x| if x < 0.0 { 2.0 * (x / 2.0).exp_m1() } else { x }),
        (Tensor::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (Tensor::log_sigmoid, |x| -(-x).exp().ln_1p()),
        (Tensor::softplus, softplus),
        (Tensor::soft_sign, |x| x / (1.0 + x.abs())),
        (Tensor::hard_tanh, |x| x.clamp(-1.0, 1.0)),
        (Tensor::hard_sigmoid, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (Tensor::hard_silu, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (|x| x.squareplus(4.0), |x| (x + (x * x + 4.0).sqrt()) / 2.0),
        (Tensor::mish, |x| x * x.exp().ln_1p().tanh()),
        (Tensor::silu, |x| x / (1.0 + (-x).exp())),
        (Tensor::gelu, |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }),
    ];
    let points: Vec<f64> = (-40..=40).map(|i| f64::from(i) * 0.25).collect();
    let x = Tensor::from_vec(points.clone(), [points.len()]);
    for (i, (method, definition)) in table.into_iter().enumerate() {
        for (&x, got) in points.iter().zip(v::<f64>(&method(&x))) {
            let want = definition(x);
            assert!((got - want).abs() <= 1e-14 * want.abs().max(1.0), "{i}: {got} of {x}: {want}");
        }
        let odd = v::<f64>(&method(&Tensor::from([f64::NAN, 200.0, -200.0, 1e300, -1e300])));
        assert!(odd[0].is_nan(), "{i}: NaN becomes {}", odd[0]);
        assert!(odd[1..3].iter().all(|x| x.is_finite()), "{i}: {odd:?}");
    }
}

#[test]
fn sums_of_logarithms_and_lengths_at_the_edges() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = Tensor::from([inf, inf, -inf, -inf, nan, 0.0, 800.0, -800.0, 1e308]);
    let y = Tensor::from([inf, -inf, -inf, 3.0, 1.0, -inf, 800.0, -800.0, -1e308]);
    let ln2 = std::f64::consts::LN_2;
    let want = [inf, inf, -inf, 3.0, nan, 0.0, 800.0 + ln2, -800.0 + ln2, 1e308];
    for (got, want) in v::<f64>(&x.logaddexp(&y)).into_iter().zip(want) {
        assert!(got == want || got.is_nan() && want.is_nan(), "{got} instead of {want}");
    }
    let x = Tensor::from([inf, nan, nan, 0.0, -0.0, 3e300, 5e-324, 1e200, -3.0]);
    let y = Tensor::from([nan, -inf, 1.0, 0.0, 0.0, -4e300, 0.0, 1e-200, 4.0]);
    let want = [inf, inf, nan, 0.0, 0.0, 5e300, 5e-324, 1e200, 5.0];
    for (got, want) in v::<f64>(&x.hypot(&y)).into_iter().zip(want) {
        let near = (got - want).abs() <= 4e-16 * want;
        assert!(near || got == want || got.is_nan() && want.is_nan(), "{got} instead of {want}");
    }
}

/// [K42]
#[test]
fn nan_to_num_gives_the_greatest_finite_value_of_the_type() {
    let x = Tensor::from([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    let bits = |t: Tensor| v::<f32>(&t.nan_to_num().astype(F32));
    assert_eq!(bits(x.astype(F16)), [65504.0, -65504.0, 0.0]);
    let greatest = half::bf16::MAX.to_f32();
    assert_eq!(bits(x.astype(BF16)), [greatest, -greatest, 0.0]);
    assert_eq!(bits(x), [f32::MAX, f32::MIN, 0.0]);
}

#[test]
fn integers_bits_and_shifts() {
    let x = Tensor::from([12i32, -12, i32::MIN]);
    assert_eq!(v::<i32>(&(&x & 10)), [8, 0, 0]);
    assert_eq!(v::<i32>(&(&x | 1)), [13, -11, i32::MIN + 1]);
    assert_eq!(v::<i32>(&(&x ^ -1)), [-13, 11, i32::MAX]);
    assert_eq!(v::<i32>(&(&x >> 1)), [6, -6, i32::MIN / 2]);
    assert_eq!(v::<u32>(&(Tensor::from([u32::MAX]) >> 31)), [1]);
    assert_eq!(v::<i32>(&(&x << 1)), [24, -24, 0]);
    assert_eq!(v::<i32>(&(&x / 0)), [-1, -1, -1]);
    assert_eq!(v::<i32>(&(&x % 5)), [2, -2, i32::MIN % 5]);
    assert_eq!(v::<i32>(&!&x), [-13, 11, i32::MAX]);
}

/// [K35] Rounded down or away, the corners of integer division are those of `div`.
#[test]
fn floored_division() {
    let (a, b) = (Tensor::from([7i32, -7, 7, -7, 6, 0]), Tensor::from([3i32, 3, -3, -3, -3, 5]));
    assert_eq!(v::<i32>(&a.floor_divide(&b)), [2, -3, -3, 2, -2, 0]);
    assert_eq!(v::<i32>(&a.remainder(&b)), [1, 2, -2, -1, 0, 0]);
    assert_eq!(v::<i32>(&a.fmod(&b)), [1, -1, 1, -1, 0, 0]);
    let corners = Tensor::from([i8::MAX, i8::MIN, 7, 0, -7]);
    let by = Tensor::from([0i8, -1, 0, 0, 0]);
    assert_eq!(v::<i8>(&corners.floor_divide(&by)), [-1, i8::MIN, -1, -1, -1]);
    assert_eq!(v::<i8>(&corners.remainder(&by)), [i8::MAX, 0, 7, 0, -7]);
    let bytes = Tensor::from([200u8, 7]);
    assert_eq!(v::<u8>(&bytes.floor_divide(Tensor::from([3u8, 0]))), [66, 255]);
    assert_eq!(v::<u8>(&bytes.remainder(Tensor::from([3u8, 0]))), [2, 7]);
    let (q, r) = Tensor::from([5.5f32, -5.5, 1.0, -1.0, f32::NAN]).divmod(2.0);
    assert_eq!(v::<f32>(&q)[..4], [2.0, -3.0, 0.0, -1.0]);
    assert_eq!(v::<f32>(&r)[..4], [1.5, 0.5, 1.0, 1.0]);
    assert!(v::<f32>(&q)[4].is_nan() && v::<f32>(&r)[4].is_nan());
    // 0.3 and 0.1 are no such numbers: the quotient is a little less than 3, or more.
    assert_eq!(v::<f64>(&Tensor::from([1.0f64]).floor_divide(0.1)), [9.0]);
    assert!(message(&Tensor::from([1.0f32]).divmod(Tensor::from([1i32])).0).contains("divmod"));
}

/// [K43] Zeros have the sign of the divisor when floored, of the dividend when not.
#[test]
fn sign_of_a_zero_remainder() {
    for dtype in [F16, BF16, F32, F64] {
        let a = Tensor::from([-6.0f32, 6.0, -0.0]).astype(dtype);
        let b = Tensor::from([3.0f32, -3.0, 5.0]).astype(dtype);
        assert_eq!(v::<bool>(&a.remainder(&b).signbit()), [false, true, false]);
        assert_eq!(v::<bool>(&a.fmod(&b).signbit()), [true, false, true]);
        assert_eq!(v::<f32>(&a.remainder(&b).astype(F32)), [0.0; 3]);
    }
}

#[test]
fn bits_of_floats_and_counts() {
    for dtype in [F16, BF16, F32, F64] {
        let x = Tensor::from([1.0f32, -1.0, 0.0, -0.0, f32::NEG_INFINITY]).astype(dtype);
        assert_eq!(v::<bool>(&x.signbit()), [false, true, false, true, true]);
        let signed = Tensor::from([2.0f32, -3.0, 4.0, -5.0, 6.0]).astype(dtype).copysign(&x);
        close(&signed.astype(F32), &[2.0, -3.0, 4.0, -5.0, -6.0]);
        // There and back again through every narrower type.
        for narrow in [U8, I8, U16, I16, F16, BF16, U32, I32, F32] {
            let there = x.bitcast_convert_type(narrow);
            let (wide, part) = (dtype.size(), narrow.size());
            if part < wide {
                assert_eq!(there.shape(), [5, wide / part]);
                assert_eq!(v::<bool>(&there.bitcast_convert_type(dtype).eq(&x)), [true; 5]);
            }
        }
    }
    let bytes = Tensor::from([1u8, 2, 3, 4]);
    assert_eq!(v::<u32>(&bytes.bitcast_convert_type(U32)), [0x0403_0201]);
    assert_eq!(bytes.bitcast_convert_type(U32).shape(), [] as [usize; 0]);
    assert_eq!(Tensor::from([0.0f64]).bitcast_convert_type(F32).shape(), [1, 2]);
    assert!(message(&bytes.bitcast_convert_type(U16)).contains("wants a last axis of 2 for u16"));
    assert!(message(&bytes.bitcast_convert_type(Bool)).contains("bool has no bits to convert"));
    assert_eq!(v::<i32>(&Tensor::from([0i32, 1, 40, -1]).ctz()), [32, 0, 3, 0]);
    assert_eq!(v::<u8>(&Tensor::from([0u8, 1, 128]).ctz()), [8, 0, 7]);
    assert!(message(&Tensor::from([1.0f32]).ctz()).contains("ctz: wants an integer"));
    let x = Tensor::from([-2.5f32, -0.5, 0.5, 1.5, 2.5]);
    close(&x.round_away(), &[-3.0, -1.0, 1.0, 2.0, 3.0]);
    close(&x.rint(), &[-2.0, 0.0, 0.0, 2.0, 2.0]);
    close(&x.trunc(), &[-2.0, 0.0, 0.0, 1.0, 2.0]);
    close(&x.integer_pow(2), &[6.25, 0.25, 0.25, 2.25, 6.25]);
}

/// [K22] A condition that is always false, and the angle of the origin.
#[test]
fn angle_of_zeros_that_fold() {
    let f = jit(|x: Tensor, y: Tensor| {
        let c = (x.lt(&y) ^ x.lt(&y)).astype(F32);
        c.atan2(&c)
    });
    let got = f.call(Tensor::from([1.0f32, 2.0, 3.0]), Tensor::from([2.0f32; 3])).unwrap();
    assert_eq!(v::<f32>(&got), [0.0; 3]);
}

#[test]
fn select_and_where() {
    let c = Tensor::from([true, false]);
    close(&c.select(1.0, 2.0), &[1.0, 2.0]);
    close(&Tensor::where_(&c, iota(&[2, 2]), -1.0), &[0.0, -1.0, 2.0, -1.0]);
    assert_eq!(v::<i32>(&c.select(1, Tensor::from([[5i32], [6]]))), [1, 5, 1, 6]);
    assert!(message(&c.select(iota(&[3]), 0.0)).contains("do not broadcast: condition bool[2]"));
}

#[test]
fn movement() {
    let x = iota(&[2, 3]);
    close(&x.t(), &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    close(&x.transpose(&[1, 0]).reshape([6]), &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(iota(&[2, 3, 4]).swapaxes(0, -1).shape(), [4, 3, 2]);
    assert_eq!(iota(&[2, 3, 4]).moveaxis(0, -1).shape(), [3, 4, 2]);
    assert_eq!(x.reshape([-1]).shape(), [6]);
    assert_eq!(x.reshape([3, -1]).shape(), [3, 2]);
    assert_eq!(x.expand_dims([0, -1]).shape(), [1, 2, 3, 1]);
    assert_eq!(x.expand_dims(1).squeeze(1).shape(), [2, 3]);
    assert_eq!(iota(&[1, 2, 1]).squeeze(..).shape(), [2]);
    close(&x.flip(1), &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    close(&x.flip(..), &[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
    close(&iota(&[3]).broadcast_to([2, 3]), &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    close(&iota(&[2]).broadcast_in_dim([2, 2], &[0]), &[0.0, 0.0, 1.0, 1.0]);
    close(&iota(&[2]).pad(9.0, &[(1, 2)]), &[9.0, 0.0, 1.0, 9.0, 9.0]);
    close(&iota(&[3]).pad_with(9.0, &[(-1, 0)], &[1]), &[9.0, 1.0, 9.0, 2.0]);
    close(&Tensor::concatenate(&[&iota(&[2]), &iota(&[1])], 0), &[0.0, 1.0, 0.0]);
    let stacked = Tensor::stack(&[iota(&[2]), iota(&[2]) + 5.0], -1);
    assert_eq!(stacked.shape(), [2, 2]);
    close(&stacked, &[0.0, 5.0, 1.0, 6.0]);
    assert!(message(&x.reshape([4])).contains("f32[2,3] does not reshape to [4]"));
    assert!(message(&x.reshape([-1, 4])).contains("does not reshape to [-1,4]"));
    assert!(message(&x.reshape([usize::MAX, usize::MAX])).contains("does not reshape"));
    assert!(message(&x.squeeze(0)).contains("axis 0 of f32[2,3] has extent 2"));
    assert!(message(&x.flip([0, 0])).contains("named twice"));
    assert!(message(&x.broadcast_to([4, 3])).contains("f32[2,3] does not broadcast to [4,3]"));
    assert!(message(&Tensor::concatenate::<Tensor>(&[], 0)).contains("no tensors"));
}

#[test]
fn indexing() {
    let x = iota(&[3, 4]);
    close(&x.get(1), &[4.0, 5.0, 6.0, 7.0]);
    close(&x.get(-1), &[8.0, 9.0, 10.0, 11.0]);
    close(&x.get((.., 1)), &[1.0, 5.0, 9.0]);
    close(&x.get((1..3, 2..)), &[6.0, 7.0, 10.0, 11.0]);
    close(&x.get((0..=1, -1)), &[3.0, 7.0]);
    close(&x.get(..-2), &[0.0, 1.0, 2.0, 3.0]);
    close(&x.get(kiln::Index::range(1, -1)), &[4.0, 5.0, 6.0, 7.0]);
    close(&x.get((0, kiln::Index::from(..).step_by(2))), &[0.0, 2.0]);
    assert_eq!(x.get(2..2).shape(), [0, 4]);
    close(&x.slice(&[1, 1], &[3, 2]), &[5.0, 9.0]);
    close(&x.slice_strided(&[0, 0], &[3, 4], &[2, 3]), &[0.0, 3.0, 8.0, 11.0]);
    let i = Tensor::from(1i32);
    close(&x.dynamic_slice(&[&i, &i], &[2, 2]), &[5.0, 6.0, 9.0, 10.0]);
    close(&x.dynamic_slice(&[7, 7], &[2, 2]), &[6.0, 7.0, 10.0, 11.0]);
    let updated = x.dynamic_update_slice(&Tensor::full([1, 2], -1.0, F32), &[&i, &i]);
    close(&updated.get(1), &[4.0, -1.0, -1.0, 7.0]);
    close(&x.at((1, 1..3)).set(0.0).get(1), &[4.0, 0.0, 0.0, 7.0]);
    close(&x.at((.., 0)).add(iota(&[3])).get((.., 0)), &[0.0, 5.0, 10.0]);
    close(&x.at(-1).mul(2.0).get(2), &[16.0, 18.0, 20.0, 22.0]);
    close(&x, &(0..12).map(|i| i as f32).collect::<Vec<_>>());
    assert!(message(&x.get(3)).contains("index 3 is out of range for axis 0 of f32[3,4]"));
    assert!(message(&x.get((0, 0, 0))).contains("3 indices for f32[3,4]"));
    assert!(message(&x.get(0..5)).contains("range 0..5 is out of range"));
    assert!(
        message(&x.at(0).set(iota(&[3]))).contains("f32[3] does not broadcast to the part [4]")
    );
}

#[test]
fn reductions() {
    let x = iota(&[2, 3]);
    close(&x.sum(..), &[15.0]);
    close(&x.sum(0), &[3.0, 5.0, 7.0]);
    close(&x.sum([0, 1]), &[15.0]);
    close(&x.max(-1), &[2.0, 5.0]);
    close(&x.min(0), &[0.0, 1.0, 2.0]);
    close(&x.get((.., 1..)).prod(1), &[2.0, 20.0]);
    close(&x.mean(1), &[1.0, 4.0]);
    close(&x.var(1), &[2.0 / 3.0, 2.0 / 3.0]);
    close(&x.std(..), &[(35.0f32 / 12.0).sqrt()]);
    assert_eq!(x.mean(keepdims([0, 1])).shape(), [1, 1]);
    assert_eq!(v::<i32>(&x.argmax(1)), [2, 2]);
    assert_eq!(v::<i32>(&x.argmin(0)), [0, 0, 0]);
    assert_eq!(v::<i32>(&x.argmax(..)), [5]);
    assert_eq!(x.argmax(keepdims(1)).shape(), [2, 1]);
    assert_eq!(v::<bool>(&x.gt(0.0).all(1)), [false, true]);
    assert_eq!(v::<bool>(&x.gt(4.0).any(1)), [false, true]);
    assert!(message(&x.sum(2)).contains("axis 2 is out of range, or named twice, for f32[2,3]"));
    assert!(message(&x.all(0)).contains("wants a bool tensor"));
    assert!(message(&x.astype(I32).mean(0)).contains("wants a float tensor, got i32[2,3]"));
}

#[test]
fn reductions_of_nothing() {
    let x = Tensor::zeros([2, 0], F32);
    close(&x.sum(1), &[0.0, 0.0]);
    close(&x.prod(1), &[1.0, 1.0]);
    close(&x.mean(1), &[f32::NAN, f32::NAN]);
    assert_eq!(v::<bool>(&x.gt(0.0).all(1)), [true, true]);
    assert_eq!(v::<bool>(&x.gt(0.0).any(1)), [false, false]);
    assert!(message(&x.max(1)).contains("axis 1 of f32[2,0] is empty"));
    assert!(message(&x.argmax(1)).contains("argmax") || message(&x.argmax(1)).contains("empty"));
    assert_eq!(x.max(0).shape(), [0]);
}

/// A sum of halves that passes the greatest half must not spoil the mean. [K46]
#[test]
fn halves_accumulate_in_single_precision() {
    let x = Tensor::full([70000], 4.0, F16);
    assert_eq!(x.mean(0).dtype(), F16);
    close(&x.mean(0), &[4.0]);
    close(&x.var(0), &[0.0]);
    close(&Tensor::full([70000], 1.0, BF16).softmax(0).get(0), &[1.0 / 70000.0]);
}

/// [K41]
#[test]
fn softmax_and_friends_at_the_edges() {
    let ninf = f32::NEG_INFINITY;
    close(&Tensor::full([6000], ninf, F32).logsumexp(0), &[ninf]);
    close(&Tensor::from([0.0, ninf]).logsumexp(0), &[0.0]);
    assert!(v::<f32>(&Tensor::full([3], ninf, F32).softmax(0)).iter().all(|x| x.is_nan()));
    let x = Tensor::from([[1000.0f32, 1000.0], [0.0, 3f32.ln()]]);
    close(&x.softmax(1), &[0.5, 0.5, 0.25, 0.75]);
    close(&x.log_softmax(-1), &[0.5f32.ln(), 0.5f32.ln(), 0.25f32.ln(), 0.75f32.ln()]);
    close(&x.logsumexp(1), &[1000.0 + 2f32.ln(), 4f32.ln()]);
}

#[test]
fn products() {
    let (a, b) = (iota(&[2, 3]), iota(&[3, 2]));
    close(&a.matmul(&b), &[10.0, 13.0, 28.0, 40.0]);
    close(&a.dot(&iota(&[3])), &[5.0, 14.0]);
    close(&iota(&[3]).dot(&iota(&[3])), &[5.0]);
    close(&iota(&[2]).matmul(&a), &[3.0, 4.0, 5.0]);
    close(&iota(&[2]).outer(&iota(&[2])), &[0.0, 0.0, 0.0, 1.0]);
    assert_eq!(iota(&[5, 1, 2, 3]).matmul(&iota(&[4, 3, 2])).shape(), [5, 4, 2, 2]);
    assert_eq!(iota(&[5, 2, 3]).matmul(&b).shape(), [5, 2, 2]);
    assert_eq!(iota(&[5, 2, 3]).matmul(&iota(&[3])).shape(), [5, 2]);
    assert_eq!(iota(&[2]).matmul(&iota(&[5, 2, 3])).shape(), [5, 3]);
    let batched = iota(&[2, 2, 2]).matmul(&iota(&[2, 2, 2]));
    close(&batched, &[2.0, 3.0, 6.0, 11.0, 46.0, 55.0, 66.0, 79.0]);
    let dims = DotDims {
        lhs_batch: vec![],
        rhs_batch: vec![],
        lhs_contract: vec![0, 1],
        rhs_contract: vec![1, 0],
    };
    close(&a.dot_general(&b, dims), &[0.0 + 2.0 + 8.0 + 3.0 + 12.0 + 25.0]);
    assert!(message(&a.matmul(&a)).contains("matmul: contracted axes differ in length"));
    assert!(message(&a.matmul(&Tensor::from(1.0f32))).contains("use `*`"));
}

#[test]
fn created() {
    close(&Tensor::full([2], 7, F32), &[7.0, 7.0]);
    assert_eq!(v::<u8>(&Tensor::ones([2, 1], U8)), [1, 1]);
    assert_eq!(v::<i64>(&Tensor::iota([2, 2], 1, I64)), [0, 1, 0, 1]);
    close(&Tensor::eye(2, F32), &[1.0, 0.0, 0.0, 1.0]);
    close(&Tensor::linspace(0.0, 1.0, 5, F32), &[0.0, 0.25, 0.5, 0.75, 1.0]);
    assert_eq!(v::<f32>(&Tensor::linspace(0.0, 0.7, 8, F32)).last(), Some(&0.7));
    close(&Tensor::linspace(3.0, 4.0, 1, F32), &[3.0]);
    close(&Tensor::ones([2, 2], F32).tril(0), &[1.0, 0.0, 1.0, 1.0]);
    close(&Tensor::ones([2, 2], F32).triu(1), &[0.0, 1.0, 0.0, 0.0]);
    close(&Tensor::from([1i32, 0]).one_hot(2, F32), &[0.0, 1.0, 1.0, 0.0]);
    assert!(message(&Tensor::full([2], 0.5, I32)).contains("cannot be a i32"));
    assert!(message(&Tensor::zeros([usize::MAX, 2], F32)).contains("broadcast"));
}

#[test]
fn host_data_in_and_out() {
    let t = Tensor::from_vec(vec![1i16, 2, 3, 4], [2, 2]);
    assert_eq!((t.shape(), t.dtype()), (&[2, 2][..], I16));
    assert_eq!(v::<i16>(&t), [1, 2, 3, 4]);
    assert!(
        message(&Tensor::from_vec(vec![1.0f32], [2]))
            .contains("1 elements for an array of shape [2]")
    );
    assert!(t.to_vec::<i32>().unwrap_err().message().contains("`.astype(I32)`"));
    assert!(t.item::<i16>().unwrap_err().message().contains("4 elements"));
    assert_eq!(f64::try_from(&Tensor::from(2.5f64)).unwrap(), 2.5);
    let host = t.to_host().unwrap();
    assert_eq!(v::<i16>(&(Tensor::from(&host) + 1)), [2, 3, 4, 5]);
    assert_eq!(v::<bool>(&Tensor::from([true, false])), [true, false]);
    let halves = Tensor::from([half::f16::ONE, half::f16::NAN]);
    assert!(v::<half::f16>(&halves)[1].is_nan());
}

/// A method that is made of others is still what the message names.
#[test]
fn a_mistake_names_the_method_that_was_called() {
    let (a, i) = (Tensor::zeros([2, 3], F32), Tensor::zeros([2, 3], I32));
    let (b, truth) = (Tensor::zeros([4], F32), Tensor::zeros([2, 3], Bool));
    let mistakes = [
        ("clip", a.clip(&b, 1.0)),
        ("clip", a.clip(0.0, &b)),
        ("std", a.std(2)),
        ("softmax", a.softmax(2)),
        ("log_softmax", a.log_softmax(2)),
        ("logsumexp", a.logsumexp(2)),
        ("gelu", i.gelu()),
        ("silu", i.silu()),
        ("mish", i.mish()),
        ("selu", i.selu()),
        ("log_sigmoid", i.log_sigmoid()),
        ("hard_silu", i.hard_silu()),
        ("hypot", i.hypot(&a)),
        ("logaddexp", a.logaddexp(&b)),
        ("stack", Tensor::stack(&[&a, &b], 0)),
        ("stack", Tensor::stack(&[&a, &a], 3)),
        ("dot", i.dot(&Tensor::from(1.0f32))),
        ("outer", a.outer(&i)),
        ("one_hot", truth.one_hot(3, F32)),
        ("full", Tensor::full([2], &a, F32)),
        ("from_vec", Tensor::from_vec(vec![1.0f32], [2])),
        ("spec", Tensor::spec([usize::MAX, 2], F32)),
        ("argmax", a.argmax([0, 1])),
    ];
    for (op, mistake) in mistakes {
        let error = mistake.error().unwrap_or_else(|| panic!("{op}: {mistake:?} is no mistake"));
        assert_eq!(error.op(), Some(op), "{error}");
        assert_eq!(error.location().map(|l| &*l.file), Some(file!()), "{error}");
    }
}

#[test]
fn a_poisoned_branch_of_a_select_poisons_it() {
    let condition = Tensor::from([true, false]);
    let mistake = Tensor::zeros([2], F32) + Tensor::zeros([3], F32);
    for t in [
        condition.select(&mistake, 0.0),
        condition.select(0.0, &mistake),
        Tensor::where_(&condition, &mistake, &mistake),
        mistake.select(1.0, 0.0),
    ] {
        assert!(t.error().is_some_and(|e| e.same(mistake.error().unwrap())));
    }
}

/// Numbers that an `i64` or an element type cannot hold do not come back as others.
#[test]
fn extreme_numbers_do_not_wrap() {
    let x = Tensor::arange(6, I32).reshape([2, 3]);
    for (what, mistake) in [
        ("sum", x.sum(usize::MAX)),
        ("get", x.get(usize::MAX)),
        ("get", x.get(0..=usize::MAX)),
        ("get", x.get(0..=i64::MAX)),
        ("get", x.get(i64::MIN)),
        ("reshape", x.reshape([-2, 3])),
        ("reshape", x.reshape([usize::MAX, 3])),
    ] {
        assert_eq!(mistake.error().and_then(|e| e.op()), Some(what), "{mistake:?}");
    }
    let sparse = Index::range(0, 2).step_by(usize::MAX).step_by(2);
    assert_eq!(v::<i32>(&x.get(sparse)), [0, 1, 2]);
    // Starts clamp, also those that the type of the others does not hold.
    let y = Tensor::arange(4, I32);
    assert_eq!(v::<i32>(&y.dynamic_slice(&[1i64 << 32], &[1])), [3]);
    assert_eq!(v::<i32>(&y.dynamic_slice(&[u64::MAX], &[1])), [3]);
    assert_eq!(v::<i32>(&y.dynamic_slice(&[i64::MIN], &[1])), [0]);
    assert_eq!(v::<i32>(&Tensor::ones([2, 2], I32).tril(i64::MAX)), [1; 4]);
    assert_eq!(v::<i32>(&Tensor::ones([2, 2], I32).triu(i64::MIN)), [1; 4]);
    // Classes that the type of the indices does not hold are not their neighbours modulo 256.
    assert_eq!(v::<i32>(&Tensor::from([5u8]).one_hot(300, I32).sum(1)), [1]);
    assert_eq!(v::<i32>(&Tensor::from([-1i8, 5]).one_hot(300, I32).sum(1)), [0, 1]);
    let half = Tensor::from([2048.0f32]).astype(F16);
    assert_eq!(v::<i32>(&half.one_hot(3000, I32).argmax(1)), [2048]);
    // Extents whose strides overflow are refused, however few the elements.
    let wide = Tensor::from_vec(Vec::<f32>::new(), [0, 1 << 40, 1 << 40]);
    assert!(message(&wide).contains("0 elements for an array of shape"));
}

#[test]
fn softmax_along_nothing_is_nothing() {
    let x = Tensor::zeros([0, 3], F32);
    assert_eq!(x.softmax(0).shape(), [0, 3]);
    assert_eq!(v::<f32>(&x.log_softmax(0)), [0.0; 0]);
    assert_eq!(v::<f32>(&x.logsumexp(0)), [f32::NEG_INFINITY; 3]);
    assert_eq!(x.argmax(keepdims(1)).shape(), [0, 1]);
    assert_eq!(Tensor::zeros([2, 3], F32).argmax(keepdims(..)).shape(), [1, 1]);
    assert_eq!(Tensor::zeros([2, 3], F32).swapaxes(1, 1).shape(), [2, 3]);
}
