//! Lookup in checked-in tables of responsible components: key, tab, component.

/// Returns the value for `key`. A table key that ends with `/` matches every key with that prefix. Rows that start with
/// `#` are comments.
pub(crate) fn find(table: &'static str, key: &str) -> Option<&'static str> {
    let rows = table.lines().filter(|row| !row.starts_with('#'));
    let mut rows = rows.filter_map(|row| row.split_once('\t'));
    rows.find(|(name, _)| *name == key || name.ends_with('/') && key.starts_with(name)).map(|(_, who)| who)
}
