//! Whether merging two groups would make the groups depend on each other in a circle.
//!
//! All groups stand in a line, every group after those it reads. Merging `a` and a
//! later `b` makes a circle exactly when some group between them is reached from `a`
//! and reaches `b`. If there is none, the merged group can stand just before the
//! groups that are reached from `a`:
//!
//! ```text
//!   a  u  d  v  e  b      d, e are reached from a; u, v are not
//!   u  v  ab  d  e        u and v may be read by b, d and e may read ab
//! ```
//!
//! After Pearce and Kelly, "A dynamic topological sort algorithm for directed
//! acyclic graphs" (2006); the line is an array of which only the part between the
//! two groups is looked at.

/// Groups further apart than this are not merged: bounds the time of a check.
const WINDOW: usize = 4096;

/// The line of groups.
pub(crate) struct Line {
    /// Group numbers by place; `None` where a group has gone.
    groups: Vec<Option<u32>>,
    /// Places by group number.
    places: Vec<usize>,
}

impl Line {
    /// Groups `0..n` in this order.
    pub fn new(n: usize) -> Line {
        Line { groups: (0..n as u32).map(Some).collect(), places: (0..n).collect() }
    }

    pub fn place(&self, group: u32) -> usize {
        self.places[group as usize]
    }

    pub fn remove(&mut self, group: u32) {
        self.groups[self.places[group as usize]] = None;
    }

    /// What lies between `a` and the later `b` and is reached from `a`, in order; or
    /// `None` if merging them would make a circle, or they are too far apart.
    pub fn reached(
        &self,
        a: u32,
        b: u32,
        readers: impl Fn(u32, &mut dyn FnMut(u32)),
    ) -> Option<Vec<u32>> {
        let (from, to) = (self.place(a), self.place(b));
        debug_assert!(from < to, "a comes first");
        if to - from > WINDOW {
            return None;
        }
        let mut seen = vec![false; to - from];
        let mut stack = vec![a];
        let mut circle = false;
        while let Some(group) = stack.pop() {
            readers(group, &mut |reader| {
                let place = self.place(reader);
                if reader == b {
                    circle |= group != a;
                } else if place < to && !std::mem::replace(&mut seen[place - from], true) {
                    stack.push(reader);
                }
            });
        }
        let groups = (from..to).filter(|p| seen[p - from]).filter_map(|p| self.groups[p]);
        (!circle).then(|| groups.collect())
    }

    /// Merges `a` into `b`, given what [`Line::reached`] said.
    pub fn merge(&mut self, a: u32, b: u32, reached: &[u32]) {
        let (from, to) = (self.place(a), self.place(b));
        let before: Vec<u32> = self.groups[from + 1..to]
            .iter()
            .flatten()
            .copied()
            .filter(|g| !reached.contains(g))
            .collect();
        let line = before.iter().chain([&b]).chain(reached).copied().map(Some);
        let holes = to + 1 - from - (before.len() + 1 + reached.len());
        let line = std::iter::repeat_n(None, holes).chain(line);
        for (place, group) in (from..=to).zip(line) {
            self.groups[place] = group;
            if let Some(group) = group {
                self.places[group as usize] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_between_makes_a_circle() {
        // 0 -> 1 -> 2, 0 -> 2, 0 -> 3
        let readers = |g: u32, f: &mut dyn FnMut(u32)| match g {
            0 => [1, 2, 3].into_iter().for_each(f),
            1 => f(2),
            _ => {}
        };
        let line = Line::new(4);
        assert_eq!(line.reached(0, 2, readers), None);
        assert_eq!(line.reached(0, 1, readers), Some(vec![]));
        assert_eq!(line.reached(0, 3, readers), Some(vec![1, 2]));
        let mut line = line;
        line.merge(0, 3, &[1, 2]);
        assert!(line.place(3) < line.place(1) && line.place(1) < line.place(2));
    }
}
