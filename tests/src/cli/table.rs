//! Columns for people.

use std::io::{self, Write};

/// Prints rows under titles, each column as wide as its widest cell.
pub(super) fn print<const N: usize>(out: &mut dyn Write, titles: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let titles = titles.map(String::from);
    let all = || std::iter::once(&titles).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in all() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
