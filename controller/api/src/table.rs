//! Checked-in tables of what somebody else takes care of: a key, a tab, and who.

/// The row of `key`; of a key that ends with `/`, the row stands for all that begin so. Rows with `#` are comments.
pub(crate) fn find(table: &'static str, key: &str) -> Option<&'static str> {
    let rows = table.lines().filter(|row| !row.starts_with('#'));
    let mut rows = rows.filter_map(|row| row.split_once('\t'));
    rows.find(|(name, _)| *name == key || name.ends_with('/') && key.starts_with(name)).map(|(_, who)| who)
}
