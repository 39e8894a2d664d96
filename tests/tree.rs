//! Trees: what `derive(Tree)` makes, leaf paths, and how trees are fed.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::collections::BTreeMap;

use kiln::prelude::*;

#[derive(Tree, Clone, Debug)]
struct Linear {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Tree, Clone)]
struct Pair<T>(T, [T; 2]);

#[derive(Tree)]
enum Optimizer<S> {
    Sgd,
    Momentum { velocity: S },
    Adam(S, S),
}

#[derive(Tree)]
struct Model<S> {
    layers: Vec<Linear>,
    norms: BTreeMap<String, Tensor>,
    optimizer: Optimizer<S>,
    #[tree(static)]
    heads: usize,
    #[tree(static)]
    rate: f32,
    pair: Pair<Tensor>,
    boxed: Box<Tensor>,
    nothing: (),
}

#[derive(Tree)]
struct Unit;

#[derive(Tree)]
struct Keyword {
    r#type: Tensor,
}

fn t(x: f32) -> Tensor {
    Tensor::from(x)
}

fn model(layers: usize, heads: usize) -> Model<Pair<Tensor>> {
    Model {
        layers: (0..layers)
            .map(|i| Linear { w: t(i as f32), b: (i % 2 == 1).then(|| t(-1.0)) })
            .collect(),
        norms: BTreeMap::from([("pre".to_string(), t(10.0)), ("post".to_string(), t(11.0))]),
        optimizer: Optimizer::Momentum { velocity: Pair(t(20.0), [t(21.0), t(22.0)]) },
        heads,
        rate: 0.5,
        pair: Pair(t(30.0), [t(31.0), t(32.0)]),
        boxed: Box::new(t(40.0)),
        nothing: (),
    }
}

#[test]
fn leaves_in_declaration_order_with_paths() {
    let model = model(2, 4);
    let leaves: Vec<(String, f32)> = model
        .leaves_with_paths()
        .into_iter()
        .map(|(path, leaf)| (path, leaf.item().unwrap()))
        .collect();
    let expected = [
        ("layers[0].w", 0.0),
        ("layers[1].w", 1.0),
        ("layers[1].b", -1.0),
        ("norms.post", 11.0),
        ("norms.pre", 10.0),
        ("optimizer.velocity.0", 20.0),
        ("optimizer.velocity.1[0]", 21.0),
        ("optimizer.velocity.1[1]", 22.0),
        ("pair.0", 30.0),
        ("pair.1[0]", 31.0),
        ("pair.1[1]", 32.0),
        ("boxed", 40.0),
    ];
    assert_eq!(leaves, expected.map(|(path, x)| (path.to_string(), x)));
    let keyword = Keyword { r#type: t(1.0) };
    assert_eq!(keyword.leaves_with_paths()[0].0, "type");
    assert!(Unit.leaves().is_empty());
}

#[test]
fn every_method_visits_the_same_leaves() {
    let mut tree = model(3, 4);
    let values = |tree: &Model<Pair<Tensor>>| -> Vec<f32> {
        tree.leaves().iter().map(|l| l.item().unwrap()).collect()
    };
    let before = values(&tree);
    let mapped = tree.map(&mut |leaf| leaf + 1.0);
    let plus_one: Vec<f32> = before.iter().map(|x| x + 1.0).collect();
    assert_eq!(values(&mapped), plus_one);
    tree.visit_mut(&mut |leaf| *leaf = &*leaf + 1.0);
    assert_eq!(values(&tree), plus_one);
    let mut given = Vec::new();
    tree.into_leaves(&mut |leaf| given.push(leaf.item::<f32>().unwrap()));
    assert_eq!(given, plus_one);
    let Model { heads, rate, .. } = mapped;
    assert_eq!((heads, rate), (4, 0.5), "statics are carried along");
}

#[test]
fn a_tree_goes_through_a_function() {
    let f = jit(|m: Model<Pair<Tensor>>| {
        let heads = m.heads as f32;
        m.map(&mut |leaf| leaf * heads)
    });
    let m = model(2, 3);
    let tripled = f.call(&m).unwrap();
    assert_eq!(tripled.boxed.item::<f32>().unwrap(), 120.0);
    assert!(tripled.layers[0].b.is_none() && tripled.layers[1].b.is_some());
    let again = f.call(tripled).unwrap();
    assert_eq!(again.boxed.item::<f32>().unwrap(), 360.0);
    assert_eq!(m.boxed.item::<f32>().unwrap(), 40.0);
    let explained = f.explain();
    assert!(explained.contains("arg0.layers[1].w: f32[]"), "{explained}");
    assert!(explained.contains("arg0.layers[0].w: f32[] moved\n"), "{explained}");
}

#[test]
fn structure_and_statics_are_part_of_the_key() {
    let f = jit(|m: Model<Pair<Tensor>>| m.boxed);
    f.call(&model(2, 4)).unwrap();
    f.call(&model(2, 4)).unwrap();
    assert_eq!(f.compile_count(), 1);
    f.call(&model(2, 8)).unwrap();
    assert_eq!(f.why().unwrap(), "arg0.heads is 8, was 4");
    f.call(&model(3, 8)).unwrap();
    let why = f.why().unwrap();
    assert!(why.starts_with("arg0.layers.len is 3, was 2; arg0.layers[2].w is f32[]"), "{why}");
    let mut other = model(3, 8);
    other.rate = -0.0;
    f.call(&other).unwrap();
    assert_eq!(f.why().unwrap(), "arg0.rate is -0.0, was 0.5");
    other.optimizer = Optimizer::Sgd;
    f.call(&other).unwrap();
    assert!(f.why().unwrap().contains("arg0.optimizer is \"Sgd\", was \"Momentum\""));
    assert_eq!(f.compile_count(), 5);
}

#[test]
fn variants_with_equal_leaves_are_told_apart() {
    let f = jit(|o: Optimizer<Tensor>| match o {
        Optimizer::Sgd => t(0.0),
        Optimizer::Momentum { velocity } => velocity * 10.0,
        Optimizer::Adam(m, v) => m - v,
    });
    let call = |o: Optimizer<Tensor>| f.call(o).unwrap().item::<f32>().unwrap();
    assert_eq!(call(Optimizer::Momentum { velocity: t(2.0) }), 20.0);
    assert_eq!(call(Optimizer::Adam(t(2.0), t(5.0))), -3.0);
    assert_eq!(call(Optimizer::Sgd), 0.0);
}

#[test]
fn parts_may_be_moved_and_borrowed_separately() {
    let f = jit(|pair: (Linear, Tensor), list: Vec<Tensor>| {
        let (linear, x) = pair;
        list.into_iter().fold(linear.w * x, |acc, t| acc + t)
    });
    let linear = Linear { w: t(2.0), b: None };
    let (x, y) = (t(3.0), t(4.0));
    let sum = f.call((linear.clone(), &x), vec![&x, &y]).unwrap();
    assert_eq!(sum.item::<f32>().unwrap(), 13.0);
    let sum = f.call((&linear, 5.0), vec![1.0, 1.0, 1.0]).unwrap();
    assert_eq!(sum.item::<f32>().unwrap(), 13.0);
    let explained = f.explain();
    assert!(
        explained.contains("arg0.0.w: f32[] moved\n") && explained.contains("arg0.1: f32[]\n"),
        "{explained}"
    );
}

/// A function generic over its state needs no bound but `Tree`.
fn train<M: Tree>(step: &Jit<(M,), M>, m: M) -> M {
    step.call(m).unwrap()
}

#[test]
fn generic_code_over_trees() {
    let step = jit(|p: Pair<Tensor>| p.map(&mut |l| l * 2.0));
    let p = train(&step, Pair(t(1.0), [t(2.0), t(3.0)]));
    assert_eq!(p.1[1].item::<f32>().unwrap(), 6.0);
}
