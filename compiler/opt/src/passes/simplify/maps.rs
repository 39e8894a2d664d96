//! Rules for elementwise ops of views: the function moves before the view.
//!
//! What is computed stays what it is, element by element; only where its index comes
//! from changes. So these hold for every function and element type.

use kiln_ir::op::{Broadcast, Reshape};
use kiln_ir::{Op, Shape, Type};

use super::{Rule, Site, Term, new, spread};

/// For every elementwise op.
pub(super) const MAP: &[Rule] =
    &[("map.broadcasts", map_of_broadcasts), ("map.reshapes", map_of_reshapes)];

/// A function of broadcasts is the broadcast of the function, computed on fewer
/// elements. Operands may be spread from scalars beside one other shape.
fn map_of_broadcasts(site: &Site) -> Option<Term> {
    let graph = site.graph;
    let mut widest: Option<(&Broadcast, &Type)> = None;
    for (k, _) in site.operands.iter().enumerate() {
        let Op::Broadcast(broadcast) = site.maker(k).op() else { return None };
        let from = graph.ty(site.maker(k).operands[0]);
        match widest {
            _ if from.shape.rank() == 0 && widest.is_some() => {}
            Some((other, ty)) if other.axes == broadcast.axes && ty.shape == from.shape => {}
            None => widest = Some((broadcast, from)),
            Some((_, ty)) if ty.shape.rank() == 0 => widest = Some((broadcast, from)),
            Some(_) => return None,
        }
    }
    let (broadcast, ty) = widest?;
    if ty.elements() >= site.ty().elements() {
        return None;
    }
    let operands: Vec<Term> = (0..site.operands.len())
        .map(|k| {
            let value = site.maker(k).operands[0];
            match graph.ty(value).shape.rank() {
                0 => spread(value.into(), &ty.shape),
                _ => value.into(),
            }
        })
        .collect();
    Some(new(broadcast.clone(), [Term::New(site.op().clone(), operands)]))
}

/// A function of reshapes is the reshape of the function. That lets it join what made
/// its operands: a bias joins the product whose result was reshaped before. Beside
/// operands of one shape there may be broadcasts along axes that the reshape keeps.
fn map_of_reshapes(site: &Site) -> Option<Term> {
    let graph = site.graph;
    let makers: Vec<Site> = (0..site.operands.len()).map(|k| site.maker(k)).collect();
    let reshape = makers.iter().find(|m| matches!(m.op(), Op::Reshape(_)))?;
    let from = &graph.ty(reshape.operands[0]).shape;
    let to = site.shape();
    let mut operands = Vec::with_capacity(makers.len());
    for maker in &makers {
        let x = maker.operands.first().copied();
        match maker.op() {
            Op::Reshape(_) if graph.ty(x?).shape == *from => operands.push(x?.into()),
            Op::Broadcast(broadcast) => {
                let axes = kept_axes(broadcast, &graph.ty(x?).shape, from, to)?;
                operands.push(new(Broadcast { shape: from.clone(), axes }, [x?]));
            }
            _ => return None,
        }
    }
    let function = Term::New(site.op().clone(), operands);
    Some(new(Reshape { shape: to.clone() }, [function]))
}

/// The axes of `from` that the broadcast's axes of `to` are, if a reshape between the
/// two shapes keeps each of them whole.
fn kept_axes(
    broadcast: &Broadcast,
    operand: &Shape,
    from: &Shape,
    to: &Shape,
) -> Option<Vec<usize>> {
    let before = |shape: &Shape, k: usize| shape[..k].iter().product::<usize>();
    let axes = broadcast.axes.iter().zip(operand.iter()).map(|(&axis, &extent)| {
        // Same extent, and as many elements before it: the same axis.
        let same = |&k: &usize| from[k] == to[axis] && before(from, k) == before(to, axis);
        (extent != 1).then_some(())?;
        (0..from.rank()).find(same)
    });
    let axes: Vec<usize> = axes.collect::<Option<_>>()?;
    axes.is_sorted_by(|a, b| a < b).then_some(axes)
}
