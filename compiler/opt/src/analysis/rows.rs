//! Where a value of a row program is evaluated.
//!
//! In a group of kind `Rows`, a value that depends on a reduction may be asked for
//! at its own row only. [`Place`] says which axis of the space each of its axes is:
//!
//! ```text
//! space [8, 5, 3], reduced axis 1
//!
//!   reduce_max     [8, 3]        axes of the space: 0, 2
//!   reshape        [8, 1, 3]                        0, -, 2
//!   broadcast      [8, 5, 3]                        0, 1, 2     wide again
//! ```
//!
//! Axes of extent 1 have one index only, so it does not matter which axis they are.

use kiln_ir::form::View;
use kiln_ir::{Form, Shape};
use smallvec::SmallVec;

/// For each axis of a value, the axis of the space that it runs along; `None` for
/// an axis of extent 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place(SmallVec<[Option<usize>; 6]>);

impl Place {
    /// Every axis of the space.
    pub fn wide(space: &Shape) -> Place {
        Place(space.iter().enumerate().map(|(k, &d)| (d != 1).then_some(k)).collect())
    }

    /// The kept axes: where a reduction's result is.
    pub fn narrow(space: &Shape, axes: &[usize]) -> Place {
        let kept = space.iter().enumerate().filter(|(k, _)| !axes.contains(k));
        Place(kept.map(|(k, &d)| (d != 1).then_some(k)).collect())
    }

    /// Like [`Place::narrow`] with the reduced axes put back at extent 1.
    #[cfg(test)]
    pub fn ones(space: &Shape, axes: &[usize]) -> Place {
        let all = space.iter().enumerate();
        Place(all.map(|(k, &d)| (d != 1 && !axes.contains(&k)).then_some(k)).collect())
    }

    /// The same axes but for those of extent 1.
    pub fn same_axes(&self, other: &Place) -> bool {
        self.0.iter().flatten().eq(other.0.iter().flatten())
    }

    /// Where the result of `form` on a value at this place of shape `operand` is, or
    /// `None` when that is not one place of each row.
    pub fn through(
        &self,
        form: &Form,
        operand: &Shape,
        result: &Shape,
        space: &Shape,
    ) -> Option<Place> {
        match form {
            Form::Map(_) => Some(self.clone()),
            Form::Reduce(_, axes) if axes.is_empty() => Some(self.clone()),
            Form::View(View::Broadcast { axes }) => {
                let carried = |k: usize| operand[k] != 1;
                if result == space {
                    let stays = |k: usize| !carried(k) || self.0[k] == Some(axes[k]);
                    return (0..operand.rank()).all(stays).then(|| Place::wide(space));
                }
                let mut place: SmallVec<[Option<usize>; 6]> =
                    SmallVec::from_elem(None, result.rank());
                for k in (0..operand.rank()).filter(|&k| carried(k)) {
                    place[axes[k]] = self.0[k];
                }
                let repeats = result.iter().zip(&place).any(|(&d, p)| d != 1 && p.is_none());
                (!repeats).then_some(Place(place))
            }
            Form::View(View::Reshape) => {
                let axes = |s: &Shape| -> SmallVec<[usize; 6]> {
                    s.iter().copied().filter(|&d| d != 1).collect()
                };
                if axes(operand) != axes(result) {
                    return None;
                }
                let mut carried = self.0.iter().flatten().copied();
                Some(Place(
                    result.iter().map(|&d| if d == 1 { None } else { carried.next() }).collect(),
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_comes_back_along_its_own_axes_only() {
        let space = Shape::from([8, 8, 3]);
        let at = Place::narrow(&space, &[1]);
        let row = Shape::from([8, 3]);
        let spread = |axes: Vec<usize>| Form::View(View::Broadcast { axes });
        let back = at.through(&spread(vec![0, 2]), &row, &space, &space);
        assert_eq!(back, Some(Place::wide(&space)));
        // Along axis 1 the maximum of row i would be read at row j.
        assert_eq!(at.through(&spread(vec![1, 2]), &row, &space, &space), None);
        let ones = Shape::from([8, 1, 3]);
        let kept = at.through(&Form::View(View::Reshape), &row, &ones, &space).unwrap();
        assert_eq!(kept, Place::ones(&space, &[1]));
        assert!(kept.same_axes(&at));
        let back = kept.through(&spread(vec![0, 1, 2]), &ones, &space, &space);
        assert_eq!(back, Some(Place::wide(&space)));
        let other = Shape::from([3, 8]);
        assert_eq!(at.through(&Form::View(View::Reshape), &row, &other, &space), None);
    }
}
