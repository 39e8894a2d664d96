//! The loops as one would first write them: the definition that the fast ones are
//! tested against. Sums are in f64, so that they are right rather than quick.

const GELU_SCALE: f64 = 0.797_884_560_802_865_4;
const GELU_CUBIC: f64 = 0.044715;

/// `gelu(1.1·x + 0.1) + r`, with the tanh form of gelu.
pub fn gelu(x: &[f32], r: &[f32], y: &mut [f32]) {
    for ((y, &x), &r) in y.iter_mut().zip(x).zip(r) {
        let t = f64::from(x) * 1.1 + 0.1;
        let u = GELU_SCALE * (t + GELU_CUBIC * t * t * t);
        *y = (0.5 * t * (1.0 + u.tanh()) + f64::from(r)) as f32;
    }
}

/// Each row becomes exponentials that add up to one.
pub fn softmax(row: usize, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponential = |x: f32| f64::from(x - max).exp();
        let total: f64 = x.iter().map(|&x| exponential(x)).sum();
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (exponential(x) / total) as f32;
        }
    }
}

/// Each row with mean zero and variance one, then scaled and shifted.
pub fn layer_norm(row: usize, x: &[f32], g: &[f32], b: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / row as f64;
        let square = |&x: &f32| (f64::from(x) - mean).powi(2);
        let variance = x.iter().map(square).sum::<f64>() / row as f64;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        for i in 0..row {
            let unit = (f64::from(x[i]) - mean) * scale;
            y[i] = (unit * f64::from(g[i]) + f64::from(b[i])) as f32;
        }
    }
}

/// Each row with mean square one, then scaled.
pub fn rms_norm(row: usize, x: &[f32], g: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / row as f64;
        let scale = 1.0 / (mean + 1e-6).sqrt();
        for i in 0..row {
            y[i] = (f64::from(x[i]) * scale * f64::from(g[i])) as f32;
        }
    }
}

/// The sum of each row up to each element.
pub fn cumsum(row: usize, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
        let mut sum = 0.0;
        for (y, &x) in y.iter_mut().zip(x) {
            sum += f64::from(x);
            *y = sum as f32;
        }
    }
}

/// `x + 1`.
pub fn increment(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x + 1.0;
    }
}
