//! Index arrays: reads and updates against plain loops, modes, errors, derivatives.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use kiln::prelude::*;
use kiln::{GatherDims, IndexMode, ScatterDims, grad, jacrev, vmap};

fn v<T: kiln::HostElement>(x: &Tensor) -> Vec<T> {
    x.to_vec().unwrap_or_else(|e| panic!("{e}"))
}

fn message(x: &Tensor) -> String {
    x.to_vec::<f32>().unwrap_err().to_string()
}

fn counting(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product(), F32).reshape(shape)
}

#[test]
fn arrays_broadcast_and_their_axes_stand_as_in_numpy() {
    let x = counting(&[2, 3, 4, 5]);
    let at = |a: usize, b: usize, c: usize, d: usize| (((a * 3 + b) * 4 + c) * 5 + d) as f32;
    let i = Tensor::from([[2], [0]]);
    let j = Tensor::from([3, 1, -2]);
    let jj = [3, 1, 2];
    let ii = [2, 0];

    // Next to each other: in their place.
    let y = x.get((.., &i, &j));
    assert_eq!(y.shape(), [2, 2, 3, 5]);
    let mut want = Vec::new();
    for a in 0..2 {
        for &b in &ii {
            for &c in &jj {
                want.extend((0..5).map(|d| at(a, b, c, d)));
            }
        }
    }
    assert_eq!(v::<f32>(&y), want);

    // A range between them: in front; a number is an array too.
    let y = x.get((1, .., &j));
    assert_eq!(y.shape(), [3, 3, 5]);
    let mut want = Vec::new();
    for &c in &jj {
        for b in 0..3 {
            want.extend((0..5).map(|d| at(1, b, c, d)));
        }
    }
    assert_eq!(v::<f32>(&y), want);

    // Ranges beside them, with steps.
    let y = x.get((kiln::Index::from(..).step_by(2), 1..3, &j, ..2));
    assert_eq!(y.shape(), [1, 2, 3, 2]);
    let mut want = Vec::new();
    for b in 1..3 {
        for &c in &jj {
            want.extend((0..2).map(|d| at(0, b, c, d)));
        }
    }
    assert_eq!(v::<f32>(&y), want);

    // A mask of numbers known here, and no indices at all.
    assert_eq!(v::<f32>(&counting(&[4]).get([3, 3, 0])), [3.0, 3.0, 0.0]);
    assert_eq!(x.get(Vec::<i64>::new().as_slice()).shape(), [0, 3, 4, 5]);
}

#[test]
fn every_index_type_and_negative_ones() {
    let x = counting(&[300]);
    for dtype in [I8, I16, I32, I64] {
        let i = Tensor::from([-1, 5, -100]).astype(dtype);
        assert_eq!(v::<f32>(&x.get(&i)), [299.0, 5.0, 200.0], "{dtype}");
        assert_eq!(v::<f32>(&x.at(&i).add(1.0).get(&i)), [300.0, 6.0, 201.0], "{dtype}");
    }
    for dtype in [U8, U16, U32, U64] {
        let i = Tensor::from([7, 255, 0]).astype(dtype);
        assert_eq!(v::<f32>(&x.get(&i)), [7.0, 255.0, 0.0], "{dtype}");
    }
    // The greatest unsigned number is not −1.
    let far = Tensor::from([u64::MAX, 1]);
    assert_eq!(v::<f32>(&x.at(&far).add(1.0).get(298..)), [298.0, 299.0]);
    let both = counting(&[2, 3]).at((&far, &Tensor::from([0, 0]))).set(9.0);
    assert_eq!(v::<f32>(&both), [0.0, 1.0, 2.0, 9.0, 4.0, 5.0]);
    let least = Tensor::from([i64::MIN, i64::MAX]);
    assert_eq!(v::<f32>(&x.get(&least)), [0.0, 299.0]);
}

#[test]
fn modes_are_those_of_jax() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let i = Tensor::from([-4, -3, 2, 3]);
    // A read clips, `take` fills, an update drops.
    assert_eq!(v::<f32>(&x.get(&i)), [1.0, 1.0, 3.0, 3.0]);
    let taken = v::<f32>(&x.take(&i, 0));
    assert!(taken[0].is_nan() && taken[3].is_nan() && taken[1..3] == [1.0, 3.0], "{taken:?}");
    assert_eq!(v::<f32>(&x.at(&i).set(9.0)), [9.0, 2.0, 9.0]);
    assert_eq!(v::<f32>(&x.at(&i).mode(IndexMode::Clip).add(1.0)), [3.0, 2.0, 5.0]);
    assert_eq!(v::<f32>(&x.at(&i).fill_value(7.0).get()), [7.0, 1.0, 3.0, 7.0]);
    assert_eq!(v::<f32>(&x.take_with(&i, 0, IndexMode::Clip)), [1.0, 1.0, 3.0, 3.0]);

    // What fills by itself.
    let filled = |dtype| Tensor::zeros([2], dtype).take([5], 0);
    assert_eq!(v::<i16>(&filled(I16)), [i16::MIN]);
    assert_eq!(v::<u32>(&filled(U32)), [u32::MAX]);
    assert_eq!(v::<bool>(&filled(Bool)), [true]);

    // Mode Error names the index, and lets good ones pass.
    let strict = |i: &Tensor| x.at(i).mode(IndexMode::Error).get();
    assert_eq!(v::<f32>(&strict(&Tensor::from([-3, 2]))), [1.0, 3.0]);
    let said = message(&strict(&i));
    assert!(said.contains("at.get: index -4 is out of range for axis 0 of f32[3]"), "{said}");
    assert!(said.contains("tests/indexing.rs"), "{said}");
    let said = message(&x.at(&Tensor::from([1, 3])).mode(IndexMode::Error).add(1.0));
    assert!(said.contains("at.add: index 3 is out of range"), "{said}");
    let traced = jit(|(x, i): (Tensor, Tensor)| x.at(&i).mode(IndexMode::Error).get());
    let said = traced.call((&x, &i)).unwrap_err().to_string();
    assert!(said.contains("mode Error looks at the indices"), "{said}");
}

#[test]
fn updates_of_one_element_come_in_order() {
    let x = Tensor::from([2.0f32, 7.0]);
    let i = Tensor::from([1, 1, 0]);
    let y = Tensor::from([3.0f32, 5.0, 4.0]);
    assert_eq!(v::<f32>(&x.at(&i).set(&y)), [4.0, 5.0]);
    assert_eq!(v::<f32>(&x.at(&i).add(&y)), [6.0, 15.0]);
    assert_eq!(v::<f32>(&x.at(&i).subtract(&y)), [-2.0, -1.0]);
    assert_eq!(v::<f32>(&x.at(&i).mul(&y)), [8.0, 105.0]);
    assert_eq!(v::<f32>(&x.at(&i).min(&y)), [2.0, 3.0]);
    assert_eq!(v::<f32>(&x.at(&i).max(&y)), [4.0, 7.0]);
    assert_eq!(v::<u8>(&Tensor::from([5u8]).at([0, 0]).subtract(2u8)), [1]);
    // Sums of floats round after each addition, in the order of the indices.
    let big = Tensor::from([0.0f32]);
    let parts = Tensor::from([1.0f32, 1e8, -1e8, 1.0]);
    let zero = Tensor::from([0, 0, 0, 0]);
    let by_hand = [1.0f32, 1e8, -1e8, 1.0].iter().fold(0.0, |sum, x| sum + x);
    assert_eq!(v::<f32>(&big.at(&zero).add(&parts)), [by_hand]);
    assert_eq!(by_hand, 1.0);
    // Half types are summed in f32: 4,096 ones do not stop at 256 or 2,048.
    for dtype in [BF16, F16] {
        let ones = Tensor::ones([4096], dtype);
        let sum = Tensor::zeros([1], dtype).at(&Tensor::zeros([4096], I32)).add(&ones);
        assert_eq!(sum.dtype(), dtype);
        assert_eq!(v::<f32>(&sum.astype(F32)), [4096.0]);
    }
}

#[test]
fn updates_beside_ranges_and_numbers() {
    let x = counting(&[3, 4, 2]);
    let i = Tensor::from([3, 0]);
    let y = x.at((1.., &i, 1)).set(Tensor::from([[-1.0f32, -2.0], [-3.0, -4.0]]).t());
    let mut want: Vec<f32> = (0..24).map(|i| i as f32).collect();
    // A number and an array next to each other: [2, 2], ranges first.
    for (a, row) in [(1, [-1.0, -3.0]), (2, [-2.0, -4.0])] {
        for (b, value) in [3, 0].into_iter().zip(row) {
            want[(a * 4 + b) * 2 + 1] = value;
        }
    }
    assert_eq!(v::<f32>(&y), want);
    let said = message(&x.at((kiln::Index::from(..).step_by(2), &i)).set(0.0));
    assert!(said.contains("a range with a step cannot be replaced"), "{said}");
    // Boxes of numbers and ranges.
    let x = counting(&[2, 3]);
    assert_eq!(v::<f32>(&x.at((.., 1)).max(2.0)), [0.0, 2.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(v::<f32>(&x.at(1).min(4.0)), [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
    assert_eq!(v::<f32>(&x.at(0).subtract(1.0)), [-1.0, 0.0, 1.0, 3.0, 4.0, 5.0]);
    assert_eq!(v::<f32>(&x.at((1, 0..2)).get()), [3.0, 4.0]);
}

#[test]
fn mistakes_name_the_method_and_the_types() {
    let x = counting(&[3, 4]);
    let mask = Tensor::from([true, false, true]);
    let said = message(&x.get(&mask));
    assert!(said.contains("get: a mask (bool[3]) is no index"), "{said}");
    assert!(said.contains("where_"), "{said}");
    let said = message(&x.get(&counting(&[2])));
    assert!(said.contains("get: wants integers as indices, got f32[2]"), "{said}");
    let said = message(&x.get((&Tensor::from([0, 1]), &Tensor::from([0, 1, 2]))));
    assert!(said.contains("index arrays do not broadcast: [2], axis 1 [3]"), "{said}");
    let said = message(&x.at(&Tensor::from([0, 1])).set(counting(&[3])));
    assert!(
        said.contains("at.set: the value f32[3] does not broadcast to the part [2,4]"),
        "{said}"
    );
    let said = message(&x.at(&Tensor::from([0, 1])).set(Tensor::from([1, 2, 3, 4])));
    assert!(said.contains("at.set: the value is i32[4], the tensor f32[3,4]"), "{said}");
    let said = message(&x.take([0], 2));
    assert!(said.contains("take: axis 2 is out of range for f32[3,4]"), "{said}");
    let said = message(&x.take_along_axis(&Tensor::from([0]), 1));
    assert!(said.contains("take_along_axis: wants integers of rank 2"), "{said}");
    let said = message(&x.segment_sum(&Tensor::from([0, 1]), 2));
    assert!(said.contains("segment_sum: wants one integer id for each entry"), "{said}");
    let said = message(&x.at(9).add(1.0));
    assert!(said.contains("at.add: index 9 is out of range for axis 0"), "{said}");
    let said = message(&counting(&[0]).get([0]));
    assert!(said.contains("get: an index into an empty axis of f32[0]"), "{said}");
    let dims = GatherDims { offset_dims: vec![1], index_vector_dim: 1, ..GatherDims::default() };
    let said = message(&x.gather(&Tensor::from([0]), dims, &[1, 4], IndexMode::Clip));
    assert!(said.contains("gather: start_index_map has 0 axes"), "{said}");
}

#[test]
fn empties_and_rank_0() {
    let none = Tensor::from(&[0i32; 0][..]);
    let x = counting(&[3, 2]);
    assert_eq!(x.get(&none).shape(), [0, 2]);
    assert_eq!(v::<f32>(&x.at(&none).set(1.0)), v::<f32>(&x));
    // K65, forward: nothing is there to be added to.
    let empty = counting(&[0]);
    assert!(v::<f32>(&empty.at([0]).add(1.0)).is_empty());
    assert!(v::<f32>(&empty.take([0, 1], 0)).iter().all(|x| x.is_nan()));
    assert_eq!(empty.take(&none, 0).shape(), [0]);
    // One index without axes takes the axis away.
    let one = Tensor::from(2);
    assert_eq!(v::<f32>(&x.get(&one)), [4.0, 5.0]);
    assert_eq!(x.take(-1, 1).shape(), [3]);
}

#[test]
fn along_an_axis_and_segments() {
    let x = counting(&[2, 3]);
    let i = Tensor::from([[2, 0, -1, 5], [1, 1, 0, 0]]);
    let y = v::<f32>(&x.take_along_axis(&i, 1));
    assert_eq!(y[..3], [2.0, 0.0, 2.0]);
    assert!(y[3].is_nan());
    assert_eq!(y[4..], [4.0, 4.0, 3.0, 3.0]);
    // The other axes broadcast.
    let row = Tensor::from([[1], [0]]);
    assert_eq!(v::<f32>(&counting(&[1, 3]).take_along_axis(&row, 1)), [1.0, 0.0]);
    let first = Tensor::from([[1, 0, 1]]);
    assert_eq!(v::<f32>(&x.take_along_axis(&first, 0)), [3.0, 1.0, 5.0]);

    let data = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, f32::NAN]]);
    let ids = Tensor::from([1, -1, 1]);
    let sum = v::<f32>(&data.segment_sum(&ids, 2));
    assert_eq!(sum[..3], [0.0, 0.0, 6.0]);
    assert!(sum[3].is_nan());
    let ints = Tensor::from([3, 4, 5]);
    assert_eq!(v::<i32>(&ints.segment_max(&ids, 3)), [i32::MIN, 5, i32::MIN]);
    assert_eq!(v::<i32>(&ints.segment_min(&ids, 3)), [i32::MAX, 3, i32::MAX]);
    assert_eq!(v::<i32>(&ints.segment_prod(&ids, 2)), [1, 15]);
    assert_eq!(v::<i32>(&Tensor::from([0, -3, 2, 2, 7]).bincount(3)), [2, 0, 2]);
}

#[test]
fn dimension_numbers() {
    // K17: several index axes, the first of extent 1.
    let data = Tensor::zeros([4, 2], F32);
    let i = Tensor::from([2, 0, 3]).reshape([1, 3, 1]);
    let values = (counting(&[1, 3, 2]) + 1.0).reshape([1, 3, 2]);
    let dims = ScatterDims {
        update_window_dims: vec![2],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let y = data.scatter(&i, &values, dims.clone(), IndexMode::Drop);
    assert_eq!(v::<f32>(&y), [3.0, 4.0, 0.0, 0.0, 1.0, 2.0, 5.0, 6.0]);
    let half = data.astype(BF16).scatter_add(&i, &values.astype(BF16), dims, IndexMode::Clip);
    assert_eq!(v::<f32>(&half.astype(F32)), v::<f32>(&y));
}

/// Many sizes around the widths of vectors and of blocks of windows, on data of many
/// duplicates, against a loop.
#[test]
fn sizes_around_every_threshold() {
    for width in [1usize, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129, 257, 520] {
        for count in [1usize, 2, 5, 40] {
            let rows = 7;
            let x = counting(&[rows, width]);
            let i: Vec<i32> = (0..count).map(|k| (k * k % 9) as i32 - 1).collect();
            let updates: Vec<f32> = (0..count * width).map(|k| (k % 11) as f32 - 3.0).collect();
            let mut want: Vec<f32> = (0..rows * width).map(|k| k as f32).collect();
            let mut taken = Vec::new();
            for (k, &row) in i.iter().enumerate() {
                let row = if row < 0 { row + rows as i32 } else { row } as usize;
                let clipped = row.min(rows - 1);
                taken.extend((0..width).map(|c| (clipped * width + c) as f32));
                if row < rows {
                    for c in 0..width {
                        want[row * width + c] += updates[k * width + c];
                    }
                }
            }
            let (i, updates) = (Tensor::from(&i[..]), Tensor::from_vec(updates, [count, width]));
            assert_eq!(v::<f32>(&x.get(&i)), taken, "{count} rows of {width}");
            assert_eq!(v::<f32>(&x.at(&i).add(&updates)), want, "{count} rows of {width}");
            // Columns: neighbours in a window are far apart.
            let columns = x.t();
            let added = columns.at((.., &i)).add(updates.t());
            assert_eq!(v::<f32>(&added.t()), want, "{count} columns of {width}");
        }
    }
}

#[test]
fn derivatives_follow_the_indices() {
    // K50: the operand is larger than the updates.
    let (x, values) = (Tensor::zeros([1, 4], F32), Tensor::from([[5.0f32, 7.0]]));
    let weights = Tensor::from([[1.0f32, 2.0, 3.0, 4.0]]);
    let loss = |(x, y): &(Tensor, Tensor)| (x.at((0, [2, 0])).set(y.get(0)) * &weights).sum(..);
    let (dx, dv) = grad(loss)(&(x.clone(), values.clone()));
    assert_eq!(v::<f32>(&dx), [0.0, 2.0, 0.0, 4.0]);
    assert_eq!(v::<f32>(&dv), [3.0, 1.0]);
    // K51: the last of repeated indices wins, forward and backward.
    let i = Tensor::from([1, 1]);
    let (d, w) = (Tensor::from([2.0f32, 7.0]), Tensor::from([3.0f32, 5.0]));
    assert_eq!(v::<f32>(&d.at(&i).set(&w)), [2.0, 5.0]);
    let (dd, dw) = grad(|(d, w): &(Tensor, Tensor)| d.at(&i).set(w).sum(..))(&(d, w));
    assert_eq!((v::<f32>(&dd), v::<f32>(&dw)), (vec![1.0, 0.0], vec![0.0, 1.0]));
    // K52: a clipped gather under vmap.
    let x = Tensor::from([0.0f32, 1.0, 2.0]);
    let at = Tensor::from([3, 0, 1]);
    let jacobian = jacrev(|x: &Tensor| vmap(|i: &Tensor| x.get(i))(&at));
    assert_eq!(v::<f32>(&jacobian(&x)), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    // K65, backward.
    let empty = counting(&[0]);
    let dv = grad(|y: &Tensor| empty.at([0]).add(y).sum(..))(&Tensor::from([1.0f32]));
    assert_eq!(v::<f32>(&dv), [0.0]);
    // An embedding's gradient is summed where a row is taken twice, in f32 for half types.
    let table = Tensor::ones([3, 2], BF16);
    let rows = Tensor::zeros([1000], I32);
    let d = grad(|t: &Tensor| t.take(&rows, 0).astype(F32).sum(..))(&table);
    assert_eq!(d.dtype(), BF16);
    assert_eq!(v::<f32>(&d.astype(F32)), [1000.0, 1000.0, 0.0, 0.0, 0.0, 0.0]);
}

/// What is scattered to is larger than the caches: units of work are parts of it, or blocks
/// of windows.
#[test]
fn large_tables_are_divided_between_threads() {
    // A generator of words that are the same everywhere.
    let mut state = 7u64;
    let mut word = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for (rows, width, count) in
        [(2_000_003, 1, 100_001), (400_001, 3, 40_000), (1_100_000, 2, 9), (9_000, 160, 20_000)]
    {
        let i: Vec<i32> = (0..count).map(|_| (word() % (rows + 9)) as i32 - 4).collect();
        let updates: Vec<f32> =
            (0..count * width).map(|_| (word() % 4001) as f32 / 16.0 - 100.0).collect();
        let mut added = vec![0.5f32; rows * width];
        let mut set = added.clone();
        for (k, &row) in i.iter().enumerate() {
            let row = if row < 0 { row + rows as i32 } else { row } as usize;
            if row < rows {
                for c in 0..width {
                    added[row * width + c] += updates[k * width + c];
                    set[row * width + c] = updates[k * width + c];
                }
            }
        }
        let (i, updates) = (Tensor::from(&i[..]), Tensor::from_vec(updates, [count, width]));
        let table = Tensor::full([rows, width], 0.5, F32);
        assert!(v::<f32>(&table.at(&i).add(&updates)) == added, "{count} of {rows} x {width}");
        assert!(v::<f32>(&table.at(&i).set(&updates)) == set, "{count} of {rows} x {width}");
    }
}
