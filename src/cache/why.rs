//! Why a call missed.
//!
//! The nearest entry is the one that differs in the fewest fields; the reason is
//! those fields.

use super::Origin;

/// Most fields that a reason names.
const NAMED: usize = 4;

/// Why none of `entries`, oldest first, served a call like `new`.
pub(super) fn why(new: &Origin, entries: &[Origin]) -> String {
    let nearest = entries.iter().rev().map(|e| differences(new, e)).min_by_key(Vec::len);
    let Some(differences) = nearest else {
        return "first call".to_string();
    };
    if differences.is_empty() {
        return "nothing that is listed differs".to_string();
    }
    let more = differences.len().saturating_sub(NAMED);
    let mut text = differences[..differences.len() - more].join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

/// Fields that differ, in the order of the new call.
fn differences(new: &Origin, old: &Origin) -> Vec<String> {
    let find = |fields: &[(String, String)], name: &str| {
        fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    let changed = new.fields.iter().filter_map(|(name, value)| match find(&old.fields, name) {
        Some(before) if before == *value => None,
        Some(before) => Some(format!("{name} is {value}, was {before}")),
        None => Some(format!("{name} is {value}, was absent")),
    });
    let absent = |(name, _): &&(String, String)| find(&new.fields, name).is_none();
    let gone = old.fields.iter().filter(absent);
    let gone = gone.map(|(name, value)| format!("{name} is absent, was {value}"));
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(fields: &[(&str, &str)]) -> Origin {
        let fields = fields.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Origin { source: None, fields }
    }

    #[test]
    fn names_what_differs_from_the_nearest() {
        let far = origin(&[("x", "i32[2]"), ("n", "1")]);
        let near = origin(&[("x", "f32[4]"), ("n", "3")]);
        let new = origin(&[("x", "f32[8]"), ("n", "3")]);
        assert_eq!(why(&new, &[]), "first call");
        assert_eq!(why(&new, &[near.clone(), far.clone()]), "x is f32[8], was f32[4]");
        let longer = origin(&[("x", "f32[4]"), ("n", "3"), ("y", "f32")]);
        assert_eq!(why(&longer, &[far, near]), "y is f32, was absent");
    }
}
