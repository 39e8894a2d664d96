//! Jobs against sorting by comparison.

use std::cmp::Ordering;

use super::*;

/// A small generator of words: the same for every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }
}

/// 64-byte lines.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Runs a job with its grid cut at `cuts`; `buffers` are the arguments.
fn run(job: &Job, buffers: &mut [Vec<u64>], cuts: &[u64], before: Option<Before>) {
    let words = job.words();
    let mut scratch = vec![Line([0xa5; 64]); job.scratch().div_ceil(64) as usize + 1];
    let arguments: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr().cast()).collect();
    let bounds: Vec<u64> =
        [0].into_iter().chain(cuts.iter().copied()).chain([job.grid()]).collect();
    for range in bounds.windows(2).rev() {
        let scratch: *mut u8 = scratch.as_mut_ptr().cast();
        // SAFETY: words of a job, arguments of the sizes that the tests give them, scratch
        // as the job asks.
        unsafe {
            let (words, arguments) = (words.as_ptr(), arguments.as_ptr());
            match before {
                None => kiln_sort_keys(words, arguments, scratch, range[0], range[1]),
                Some(f) => kiln_sort_by(words, arguments, scratch, range[0], range[1], f),
            }
        }
    }
    let after = &scratch[job.scratch().div_ceil(64) as usize];
    assert_eq!(after.0, [0xa5; 64], "scratch is overrun");
}

fn bytes(buffer: &[u64]) -> Vec<u8> {
    buffer.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn element(buffer: &[u8], element: Element, i: usize) -> u64 {
    let size = element.size();
    let mut word = [0; 8];
    word[..size].copy_from_slice(&buffer[i * size..(i + 1) * size]);
    u64::from_le_bytes(word)
}

/// The order of two elements by their bits, in plain words.
fn compare(element: Element, a: u64, b: u64) -> Ordering {
    let float = |x: u64| match element {
        Element::F16 => half(x as u16),
        Element::BF16 => f64::from(f32::from_bits((x as u32) << 16)),
        Element::F32 => f64::from(f32::from_bits(x as u32)),
        _ => f64::from_bits(x),
    };
    match element {
        Element::U8 | Element::U16 | Element::U32 | Element::U64 => a.cmp(&b),
        Element::I8 => (a as i8).cmp(&(b as i8)),
        Element::I16 => (a as i16).cmp(&(b as i16)),
        Element::I32 => (a as i32).cmp(&(b as i32)),
        Element::I64 => (a as i64).cmp(&(b as i64)),
        _ => {
            let (a, b) = (float(a), float(b));
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

fn half(bits: u16) -> f64 {
    let (exponent, digits) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        31 if digits > 0.0 => return f64::NAN,
        31 => f64::INFINITY,
        0 => digits * 2f64.powi(-24),
        e => (1024.0 + digits) * 2f64.powi(e - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Checks a job on random elements, some of them special and many equal.
fn check(job: &Job, random: &mut Random, kinds: u64, cuts: &[u64]) {
    let (outer, length, inner) = (job.outer as usize, job.length as usize, job.inner as usize);
    let take = job.take as usize;
    let inputs = job.operands.len();
    let mut buffers: Vec<Vec<u64>> = Vec::new();
    for operand in &job.operands {
        let size = operand.element.size();
        let elements = outer * length * inner;
        let mut data = vec![0u8; (elements * size).next_multiple_of(8)];
        for i in 0..elements {
            let word = match random.next() % 8 {
                0 => 0u64,
                1 => 1 << (8 * size - 1),
                2 => u64::MAX,
                _ => (random.next() % kinds).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3,
            };
            data[i * size..(i + 1) * size].copy_from_slice(&word.to_le_bytes()[..size]);
        }
        let words = data.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap()));
        buffers.push(words.collect());
    }
    for operand in &job.operands {
        let result = outer * take * inner * operand.element.size();
        buffers.push(vec![0; result.div_ceil(8)]);
    }
    run(job, &mut buffers, cuts, None);
    let data: Vec<Vec<u8>> = buffers.iter().map(|b| bytes(b)).collect();
    for row in 0..outer * inner {
        let at = |extent: usize, i: usize| (row / inner * extent + i) * inner + row % inner;
        let mut places: Vec<usize> = (0..length).collect();
        places.sort_by(|&a, &b| {
            job.keys.iter().fold(Ordering::Equal, |so_far, key| {
                let k = key.operand as usize;
                let kind = job.operands[k].element;
                let [a, b] = [a, b].map(|p| element(&data[k], kind, at(length, p)));
                let order = compare(kind, a, b);
                so_far.then(if key.descending { order.reverse() } else { order })
            })
        });
        for (k, operand) in job.operands.iter().enumerate().filter(|(_, o)| o.to.is_some()) {
            for (i, &place) in places[..take].iter().enumerate() {
                let got = element(&data[inputs + k], operand.element, at(take, i));
                let want = match operand.from {
                    Source::Position => place as u64,
                    Source::Argument(_) => element(&data[k], operand.element, at(length, place)),
                };
                assert_eq!(got, want, "{job:?} row {row} operand {k} element {i}");
            }
        }
    }
}

fn job(outer: u64, length: u64, inner: u64, take: u64, elements: &[Element]) -> Job {
    let count = elements.len() as u32;
    let operand = |(k, &element): (usize, &Element)| Operand {
        element,
        from: Source::Argument(k as u32),
        to: Some(count + k as u32),
    };
    let keys = vec![Key { operand: 0, descending: false }];
    let operands = elements.iter().enumerate().map(operand).collect();
    Job { outer, length, inner, take, operands, keys }
}

#[test]
fn every_element_sorts() {
    let mut random = Random(1);
    for element in Element::ALL {
        for length in [1, 2, 3, 31, 255, 256, 257, 2000] {
            for descending in [false, true] {
                for kinds in [5, u64::MAX] {
                    let mut alone = job(2, length, 1, length, &[element]);
                    alone.keys[0].descending = descending;
                    check(&alone, &mut random, kinds, &[1]);
                    let mut carried =
                        job(1, length, 3, length, &[element, Element::U8, Element::I64]);
                    carried.keys[0].descending = descending;
                    carried.operands[2].from = Source::Position;
                    check(&carried, &mut random, kinds, &[]);
                }
            }
        }
    }
}

#[test]
fn several_keys_decide_in_turn() {
    let mut random = Random(2);
    for length in [1, 7, 256, 300, 5000] {
        for first in [Element::U8, Element::F32, Element::F64] {
            let mut two = job(2, length, 1, length, &[first, Element::BF16, Element::I64]);
            two.keys.push(Key { operand: 2, descending: true });
            two.keys.push(Key { operand: 1, descending: false });
            two.operands[1].to = None;
            check(&two, &mut random, 3, &[1]);
        }
    }
}

#[test]
fn the_first_few_are_those_of_the_whole() {
    let mut random = Random(3);
    for element in Element::ALL {
        for (length, take) in [(5, 1), (700, 3), (5000, 1), (5000, 100), (9000, 1100)] {
            for kinds in [6, u64::MAX] {
                for (outer, inner) in [(2, 1), (1, 2)] {
                    let mut top = job(outer, length, inner, take, &[element, Element::I32]);
                    top.operands[1].from = Source::Position;
                    top.keys[0].descending = true;
                    check(&top, &mut random, kinds, &[]);
                }
            }
        }
    }
}

#[test]
fn cuts_of_a_long_row_change_nothing() {
    let mut random = Random(4);
    for kinds in [1, 4, u64::MAX] {
        for elements in
            [&[Element::F32][..], &[Element::F32, Element::U16], &[Element::F64, Element::I8]]
        {
            let whole = job(2, 40_000, 1, 40_000, elements);
            assert_eq!(whole.grid(), 128);
            for cuts in [&[][..], &[64], &[32, 64, 100], &[1, 2, 3, 63, 65, 127], &[40, 90]] {
                check(&whole, &mut random, kinds, cuts);
            }
        }
    }
}

#[test]
fn functions_order() {
    /// By the second operand, the greatest first.
    unsafe extern "C" fn before(rows: *const *const u8, a: u64, b: u64) -> u8 {
        // SAFETY: the second operand is a row of i32.
        unsafe {
            let row: *const i32 = (*rows.add(1)).cast();
            (*row.add(a as usize) > *row.add(b as usize)).into()
        }
    }
    let mut job = job(2, 5, 1, 5, &[Element::U16, Element::I32]);
    job.keys.clear();
    let keys = [3i32, -1, 7, 3, 0, 9, 9, 8, 9, 7];
    let bytes = |v: Vec<u8>| -> Vec<u64> {
        let mut v = v;
        v.resize(v.len().next_multiple_of(8), 0);
        v.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect()
    };
    let numbers = bytes((0..10u16).flat_map(|i| i.to_le_bytes()).collect());
    let keys = bytes(keys.iter().flat_map(|k| k.to_le_bytes()).collect());
    let mut buffers = [numbers, keys, vec![0; 3], vec![0; 5]];
    run(&job, &mut buffers, &[1], Some(before));
    let got = super::tests::bytes(&buffers[2]);
    let got: Vec<u64> = (0..10).map(|i| element(&got, Element::U16, i)).collect();
    assert_eq!(got, [2, 0, 3, 4, 1, 5, 6, 8, 7, 9]);
}

#[test]
fn words_tell_what_the_job_said() {
    let mut job = job(3, 9, 20, 4, &[Element::F16, Element::U64]);
    job.operands[1] = Operand { element: Element::U64, from: Source::Position, to: None };
    let words = job.words();
    // SAFETY: the words of a job.
    let read = unsafe { Words::new(words.as_ptr()) };
    assert!(read.operands().eq(job.operands.iter().copied()));
    assert!(read.keys().eq(job.keys.iter().copied()));
    assert_eq!((read.outer(), read.length(), read.inner(), read.take()), (3, 9, 20, 4));
    assert_eq!(job.grid(), 6);
}
