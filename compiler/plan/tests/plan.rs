//! The planner against its independent checker, and the checker against broken plans.

use kiln_plan::check::check;
use kiln_plan::{
    Action, Buffer, BufferId, Origin, OutputPlace, Place, Plan, Problem, Step, StepId, plan,
};

/// Builds problems the way the driver does.
#[derive(Default)]
struct Builder(Problem);

impl Builder {
    fn parameter(&mut self, bytes: u64, donated: bool) -> BufferId {
        let index =
            self.0.buffers.iter().filter(|b| matches!(b.origin, Origin::Parameter { .. })).count();
        self.buffer(bytes, Origin::Parameter { index, donated })
    }

    fn constant(&mut self, bytes: u64) -> BufferId {
        let index =
            self.0.buffers.iter().filter(|b| matches!(b.origin, Origin::Constant { .. })).count();
        self.buffer(bytes, Origin::Constant { index })
    }

    fn buffer(&mut self, bytes: u64, origin: Origin) -> BufferId {
        self.0.buffers.push(Buffer { bytes, origin });
        BufferId(self.0.buffers.len() - 1)
    }

    /// A step that reads everything before it writes.
    fn opaque(&mut self, reads: &[BufferId], bytes: u64) -> BufferId {
        let w = self.buffer(bytes, Origin::Step);
        self.0.steps.push(Step { reads: reads.into(), writes: vec![w], ..Step::default() });
        w
    }

    /// A step that works element by element.
    fn map(&mut self, reads: &[BufferId], bytes: u64) -> BufferId {
        let w = self.opaque(reads, bytes);
        self.0.steps.last_mut().unwrap().may_share = reads.iter().map(|&r| (r, w)).collect();
        w
    }

    /// A step that overwrites part of `base`.
    fn update(&mut self, base: BufferId, reads: &[BufferId]) -> BufferId {
        let bytes = self.0.buffers[base.0].bytes;
        let w = self.opaque(reads, bytes);
        self.0.steps.last_mut().unwrap().update = Some((base, w));
        w
    }

    fn plan(mut self, outputs: &[BufferId]) -> (Problem, Plan) {
        self.0.outputs = outputs.into();
        let plan = plan(&self.0).unwrap();
        check(&self.0, &plan).unwrap();
        (self.0, plan)
    }
}

fn copies(plan: &Plan) -> usize {
    plan.actions.iter().filter(|a| matches!(a, Action::Copy { .. })).count()
}

#[test]
fn a_chain_of_maps_needs_no_arena() {
    let mut b = Builder::default();
    let x = b.parameter(1024, false);
    let mut v = b.map(&[x], 1024);
    for _ in 0..10 {
        v = b.map(&[v], 1024);
    }
    let (_, p) = b.plan(&[v]);
    assert_eq!(p.arena, 0);
    assert_eq!(p.outputs, [OutputPlace::Fresh]);
}

#[test]
fn donated_parameters_cross_over() {
    // (a, b) -> (b*2, a*3): each output takes the parameter it is made from.
    let mut b = Builder::default();
    let (x, y) = (b.parameter(4096, true), b.parameter(4096, true));
    let u = b.map(&[y], 4096);
    let v = b.map(&[x], 4096);
    let (_, p) = b.plan(&[u, v]);
    assert_eq!(p.outputs, [OutputPlace::Parameter(1), OutputPlace::Parameter(0)]);
    assert_eq!((p.arena, copies(&p)), (0, 0));
}

#[test]
fn a_kept_parameter_is_never_overwritten() {
    let mut b = Builder::default();
    let x = b.parameter(4096, false);
    let y = b.update(x, &[]);
    let (problem, p) = b.plan(&[y]);
    assert_eq!(p.outputs, [OutputPlace::Fresh]);
    assert_eq!(p.copied_bytes(&problem), 4096);
}

#[test]
fn a_donated_update_copies_nothing() {
    let mut b = Builder::default();
    let x = b.parameter(4096, true);
    let small = b.parameter(64, false);
    let y = b.update(x, &[small]);
    let (_, p) = b.plan(&[y]);
    assert_eq!(p.outputs, [OutputPlace::Parameter(0)]);
    assert_eq!(copies(&p), 0);
}

#[test]
fn an_update_that_reads_its_base_elsewhere_copies() {
    // K01: y = DUS(b, b[0:5]): the overlapping rows would be read after the write.
    let mut b = Builder::default();
    let x = b.parameter(48, false);
    let t = b.map(&[x], 48);
    let y = b.update(t, &[t]);
    let (problem, p) = b.plan(&[y]);
    assert_eq!(p.copied_bytes(&problem), 48);
}

#[test]
fn the_read_before_an_update_is_ordered_first() {
    // b -> (DUS(b), sum(b)): in creation order the update would come first and
    // copy; the plan with no copies wins.
    let mut b = Builder::default();
    let x = b.parameter(1 << 20, true);
    let y = b.update(x, &[]);
    let s = b.opaque(&[x], 4);
    let (problem, p) = b.plan(&[y, s]);
    assert_eq!(p.copied_bytes(&problem), 0, "{:?}", p.actions);
    assert_eq!(p.outputs[0], OutputPlace::Parameter(0));
}

#[test]
fn outputs_that_repeat_or_pass_through_are_copied_or_taken() {
    let mut b = Builder::default();
    let kept = b.parameter(64, false);
    let given = b.parameter(64, true);
    let c = b.constant(64);
    let t = b.opaque(&[kept], 64);
    let (problem, p) = b.plan(&[t, t, kept, given, given, c]);
    assert_eq!(p.copied_bytes(&problem), 4 * 64);
    assert_eq!(p.outputs[3], OutputPlace::Parameter(1));
    assert_eq!(p.outputs.iter().filter(|o| **o == OutputPlace::Fresh).count(), 5);
}

#[test]
fn an_output_moves_into_a_dead_donated_parameter() {
    let mut b = Builder::default();
    let x = b.parameter(4096, true);
    let small = b.opaque(&[x], 64);
    let y = b.opaque(&[small], 4096);
    let (_, p) = b.plan(&[y]);
    assert_eq!(p.outputs, [OutputPlace::Parameter(0)]);
    // A step that reads the parameter out of order cannot write over it.
    let mut b = Builder::default();
    let x = b.parameter(4096, true);
    let y = b.opaque(&[x], 4096);
    let (_, p) = b.plan(&[y]);
    assert_eq!(p.outputs, [OutputPlace::Fresh]);
}

#[test]
fn order_beats_packing() {
    // Eight independent pairs big -> small: creation order makes all the bigs
    // first; least peak runs each pair to its small end.
    let mut b = Builder::default();
    let x = b.parameter(64, false);
    let bigs: Vec<_> = (0..8).map(|_| b.opaque(&[x], 1 << 20)).collect();
    let smalls: Vec<_> = bigs.iter().map(|&v| b.opaque(&[v], 64)).collect();
    let y = b.opaque(&smalls, 64);
    let (_, p) = b.plan(&[y]);
    assert!(p.arena <= (1 << 20) + 8 * 64, "arena {} by {}", p.arena, p.schedule);
    assert_eq!(p.arena, p.lower_bound);
}

/// A barrier: a step that reads two values and moves nothing. A reader of the one, which
/// frees memory before the other is made, has to wait.
#[test]
fn whoever_reads_behind_a_barrier_comes_after_it() {
    let problem = |barrier: bool| {
        let mut b = Builder::default();
        let x = b.parameter(64, false);
        let large = b.opaque(&[x], 1 << 20);
        let other = b.opaque(&[x], 1 << 20);
        if barrier {
            b.0.steps.push(Step { reads: vec![large, other], ..Step::default() });
        }
        let sum = b.opaque(&[large], 64);
        let last = b.opaque(&[other], 64);
        if barrier {
            b.0.steps[3].after = vec![StepId(2)];
            b.0.steps[4].after = vec![StepId(2)];
        }
        b.plan(&[sum, last])
    };
    let order = |plan: &Plan| -> Vec<usize> { plan.actions.iter().filter_map(step).collect() };
    assert_eq!(order(&problem(false).1), [0, 2, 1, 3]);
    let (problem, mut plan) = problem(true);
    assert_eq!(order(&plan), [0, 1, 2, 3, 4]);
    plan.actions.swap(2, 3);
    let message = check(&problem, &plan).unwrap_err().to_string();
    assert!(message.contains("step 3 runs before step 2"), "{message}");
    let itself = Step { after: vec![StepId(0)], ..Step::default() };
    assert!(kiln_plan::plan(&Problem { steps: vec![itself], ..Problem::default() }).is_err());
}

fn step(action: &Action) -> Option<usize> {
    match action {
        Action::Run(s) => Some(s.0),
        Action::Copy { .. } => None,
    }
}

#[test]
fn malformed_problems_are_errors() {
    let mut b = Builder::default();
    let x = b.parameter(64, false);
    let y = b.opaque(&[x], 64);
    b.0.outputs = vec![y];
    let good = b.0;
    let wrong = |change: fn(&mut Problem)| {
        let mut p = good.clone();
        change(&mut p);
        plan(&p).unwrap_err().to_string()
    };
    assert!(wrong(|p| p.steps[0].reads = vec![BufferId(1)]).contains("before it is made"));
    assert!(wrong(|p| p.steps[0].writes = vec![BufferId(0)]).contains("which exists"));
    assert!(wrong(|p| p.outputs = vec![BufferId(7)]).contains("nothing makes"));
    assert!(wrong(|p| p.steps[0].may_share = vec![(BufferId(0), BufferId(0))]).contains("shares"));
}

/// xorshift64*: the tests need repeatable choices, not good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % n
    }
}

fn random_problem(seed: u64) -> (Builder, Vec<BufferId>) {
    let mut r = Random(seed * 2 + 1);
    let sizes = [0, 4, 60, 64, 68, 100, 128, 512];
    let mut b = Builder::default();
    let mut all = Vec::new();
    for _ in 0..1 + r.below(4) {
        let donated = r.below(2) == 0;
        all.push(b.parameter(sizes[r.below(8)], donated));
    }
    if r.below(3) == 0 {
        all.push(b.constant(sizes[r.below(8)]));
    }
    for _ in 0..r.below(30) {
        let pick = |r: &mut Random| all[all.len() - 1 - r.below(all.len().min(8))];
        let reads: Vec<_> = (0..1 + r.below(3)).map(|_| pick(&mut r)).collect();
        let w = match r.below(4) {
            0 => b.opaque(&reads, sizes[r.below(8)]),
            1 => {
                let base = pick(&mut r);
                let reads: Vec<_> = reads.into_iter().take(r.below(3)).collect();
                b.update(base, &reads)
            }
            _ => {
                let bytes = b.0.buffers[reads[0].0].bytes;
                let w = b.map(&reads, bytes);
                let problem = &mut b.0;
                let buffers = &problem.buffers;
                problem
                    .steps
                    .last_mut()
                    .unwrap()
                    .may_share
                    .retain(|(x, _)| buffers[x.0].bytes == bytes);
                w
            }
        };
        all.push(w);
        if r.below(5) == 0 {
            // A second result of the same step.
            let w = b.buffer(sizes[r.below(8)], Origin::Step);
            b.0.steps.last_mut().unwrap().writes.push(w);
            all.push(w);
        }
    }
    let outputs = (0..1 + r.below(5)).map(|_| all[r.below(all.len())]).collect();
    (b, outputs)
}

#[test]
fn random_plans_are_sound() {
    let mut worst: f64 = 1.0;
    for seed in 0..20_000 {
        let (mut b, outputs) = random_problem(seed);
        b.0.outputs = outputs;
        let p = plan(&b.0).unwrap();
        if let Err(e) = check(&b.0, &p) {
            panic!("seed {seed}: {e}\n{:#?}\n{p:#?}", b.0);
        }
        assert!(p.arena >= p.lower_bound, "seed {seed}: the bound is above the plan");
        worst = worst.max(p.ratio());
    }
    println!("worst plan / lower bound over 20000 random problems: {worst:.3}");
}

/// Runs the plan on bytes that are hashes, and the problem on values that are never
/// overwritten; the outputs must agree. A second oracle, with no notion of ranges.
fn outputs_by_execution(problem: &Problem, plan: &Plan) -> (Vec<u64>, Vec<u64>) {
    use std::collections::HashMap;
    let mix = |a: u64, b: u64| (a.rotate_left(13) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let run = |step: usize, inputs: Vec<u64>, result: usize| {
        inputs.into_iter().fold(mix(step as u64, result as u64), mix)
    };
    // Ideal: every buffer keeps its value.
    let mut ideal: Vec<u64> = (0..problem.buffers.len() as u64).map(|b| mix(b, 77)).collect();
    for (s, step) in problem.steps.iter().enumerate() {
        let inputs: Vec<u64> = step.needs().map(|b| ideal[b.0]).collect();
        for (i, w) in step.writes.iter().enumerate() {
            ideal[w.0] = run(s, inputs.clone(), i);
        }
    }
    // Planned: memory is a map from each 4-byte word's address to a hash.
    let mut memory: HashMap<(u8, usize, u64), u64> = HashMap::new();
    let sizes = {
        let mut sizes: Vec<u64> = problem.buffers.iter().map(|b| b.bytes).collect();
        sizes.resize(plan.places.len(), 0);
        for a in &plan.actions {
            if let Action::Copy { from, to } = a {
                sizes[to.0] = sizes[from.0];
            }
        }
        sizes
    };
    let words = |b: BufferId| {
        let (region, index, start) = match plan.places[b.0] {
            Place::Parameter(i) => (0, i, 0),
            Place::Output(i) => (1, i, 0),
            Place::Constant(i) => (2, i, 0),
            Place::Arena(offset) => (3, 0, offset),
        };
        (0..sizes[b.0] / 4).map(move |w| (region, index, start + 4 * w))
    };
    let put = |memory: &mut HashMap<_, u64>, b: BufferId, value: u64| {
        for (i, w) in words(b).enumerate() {
            memory.insert(w, mix(value, i as u64));
        }
    };
    // A buffer's value, if all its words still agree with it.
    let value = |memory: &HashMap<_, u64>, b: BufferId, expected: u64| {
        let intact =
            words(b).enumerate().all(|(i, w)| memory.get(&w) == Some(&mix(expected, i as u64)));
        if intact { expected } else { !expected }
    };
    let initial: Vec<u64> = (0..problem.buffers.len() as u64).map(|b| mix(b, 77)).collect();
    for (b, buffer) in problem.buffers.iter().enumerate() {
        if buffer.origin != Origin::Step {
            put(&mut memory, BufferId(b), initial[b]);
        }
    }
    for action in &plan.actions {
        match *action {
            Action::Copy { from, to } => {
                let copied: Vec<_> =
                    words(from).map(|w| memory.get(&w).copied().unwrap_or(0)).collect();
                for (w, v) in words(to).zip(copied) {
                    memory.insert(w, v);
                }
            }
            Action::Run(StepId(s)) => {
                let step = &problem.steps[s];
                let inputs: Vec<u64> = step
                    .needs()
                    .enumerate()
                    .map(|(i, b)| {
                        // The base of an update is looked for where it is updated.
                        let at = match step.update {
                            Some((base, w)) if i == step.reads.len() && base == b => w,
                            _ => b,
                        };
                        value(&memory, at, ideal[b.0])
                    })
                    .collect();
                for (i, &w) in step.writes.iter().enumerate() {
                    put(&mut memory, w, run(s, inputs.clone(), i));
                }
            }
        }
    }
    let wanted = problem.outputs.iter().map(|b| ideal[b.0]).collect();
    let got = problem
        .outputs
        .iter()
        .zip(&plan.output_buffers)
        .map(|(asked, &held)| value(&memory, held, ideal[asked.0]))
        .collect();
    (wanted, got)
}

#[test]
fn random_plans_compute_the_same() {
    for seed in 0..5_000 {
        let (mut b, outputs) = random_problem(seed + 1_000_000);
        b.0.outputs = outputs;
        let p = plan(&b.0).unwrap();
        let (wanted, got) = outputs_by_execution(&b.0, &p);
        assert_eq!(wanted, got, "seed {seed}");
    }
}

#[test]
fn the_checker_refuses_broken_plans() {
    // Every change of one place or one swap of two actions either is still sound by
    // execution or is refused; enough of each kind must be seen.
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..3_000 {
        let (mut b, outputs) = random_problem(seed + 2_000_000);
        b.0.outputs = outputs;
        let mut p = plan(&b.0).unwrap();
        let mut r = Random(seed * 2 + 12345);
        if r.below(2) == 0 && p.actions.len() > 1 {
            let i = r.below(p.actions.len() - 1);
            p.actions.swap(i, i + 1);
        } else {
            let i = r.below(p.places.len());
            p.places[i] = p.places[r.below(p.places.len())];
        }
        match check(&b.0, &p) {
            Err(_) => refused += 1,
            Ok(()) => {
                harmless += 1;
                let (wanted, got) = outputs_by_execution(&b.0, &p);
                assert_eq!(
                    wanted, got,
                    "seed {seed}: the checker let a broken plan pass {:?} {:?}",
                    b.0, p
                );
            }
        }
    }
    assert!(refused > 500 && harmless > 100, "refused {refused}, harmless {harmless}");
}

#[test]
fn ten_thousand_steps_are_planned_quickly() {
    // A count, not a time: the greedy packers compare each pair of storages at most
    // once per key, and scheduling touches each edge a bounded number of times. This
    // test would take minutes if either became quadratic in the edges.
    let mut b = Builder::default();
    let mut v = b.parameter(4096, true);
    let mut all = vec![v];
    for i in 0..10_000 {
        let w = all[all.len() - 1 - (i * 7) % all.len().min(5)];
        v = b.opaque(&[v, w], 4096);
        all.push(v);
    }
    let (_, p) = b.plan(&[v]);
    assert!(p.arena <= 8 * 4096, "arena {}", p.arena);
}
