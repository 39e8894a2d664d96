//! Why a call missed.
//!
//! The nearest entry is the one that differs in the fewest fields; the reason is
//! those fields.

use hashbrown::HashMap;

use super::Origin;

/// Most fields that a reason names.
const NAMED: usize = 4;

/// Most entries that are compared, those used last: a reason must not cost what a
/// compile does.
const COMPARED: usize = 256;

/// The fields of an origin by name.
type Fields<'a> = HashMap<&'a str, &'a str>;

/// Why none of `entries`, the longest unused first, served a call like `new`.
pub(super) fn why<'a>(
    new: &Origin,
    entries: impl DoubleEndedIterator<Item = &'a Origin>,
) -> String {
    let fields: Fields<'_> = new.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let mut nearest: Option<(usize, &Origin)> = None;
    for old in entries.rev().take(COMPARED) {
        let limit = nearest.map_or(usize::MAX, |(count, _)| count);
        if let Some(count) = count(&fields, old, limit) {
            nearest = Some((count, old));
        }
    }
    match nearest {
        None => "first call".to_string(),
        Some((0, _)) => "nothing that is listed differs".to_string(),
        Some((count, old)) => reason(new, old, &fields, count),
    }
}

/// The number of fields that differ, if it is below `limit`. Names occur once.
fn count(new: &Fields<'_>, old: &Origin, limit: usize) -> Option<usize> {
    let mut same_name = 0;
    // Those that the new call lacks or has with another value, so far.
    let mut differ = 0;
    for (name, value) in &old.fields {
        let now = new.get(name.as_str());
        same_name += now.is_some() as usize;
        differ += (now != Some(&value.as_str())) as usize;
        if differ >= limit {
            return None;
        }
    }
    Some(differ + (new.len() - same_name)).filter(|&n| n < limit)
}

/// The first fields that differ, in the order of the new call.
fn reason(new: &Origin, old: &Origin, fields: &Fields<'_>, count: usize) -> String {
    let before: Fields<'_> = old.fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let changed = new.fields.iter().filter_map(|(name, value)| match before.get(name.as_str()) {
        Some(before) if before == value => None,
        Some(before) => Some(format!("{name} is {value}, was {before}")),
        None => Some(format!("{name} is {value}, was absent")),
    });
    let gone = old.fields.iter().filter(|(name, _)| !fields.contains_key(name.as_str()));
    let gone = gone.map(|(name, value)| format!("{name} is absent, was {value}"));
    let mut text = changed.chain(gone).take(NAMED).collect::<Vec<_>>().join("; ");
    if count > NAMED {
        text.push_str(&format!("; and {} more", count - NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_few_and_counts_the_rest() {
        let old = origin(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1"), ("f", "1")]);
        let new = origin(&[("a", "2"), ("b", "2"), ("c", "2"), ("d", "2"), ("e", "2"), ("g", "1")]);
        let text = why(&new, [&old].into_iter());
        assert!(
            text.starts_with("a is 2, was 1; b is") && text.ends_with("; and 3 more"),
            "{text}"
        );
    }

    fn origin(fields: &[(&str, &str)]) -> Origin {
        let fields = fields.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Origin { source: None, fields }
    }

    #[test]
    fn names_what_differs_from_the_nearest() {
        let far = origin(&[("x", "i32[2]"), ("n", "1")]);
        let near = origin(&[("x", "f32[4]"), ("n", "3")]);
        let new = origin(&[("x", "f32[8]"), ("n", "3")]);
        assert_eq!(why(&new, [].into_iter()), "first call");
        assert_eq!(why(&new, [&near, &far].into_iter()), "x is f32[8], was f32[4]");
        assert_eq!(why(&new, [&near, &new].into_iter()), "nothing that is listed differs");
        let longer = origin(&[("x", "f32[4]"), ("n", "3"), ("y", "f32")]);
        assert_eq!(why(&longer, [&far, &near].into_iter()), "y is f32, was absent");
        assert_eq!(why(&near, [&far, &longer].into_iter()), "y is absent, was f32");
    }
}
