//! Tables of aligned columns.

use super::palette::Palette;
use super::printable::plain_name;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Left-aligned, for words.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// Table of headings and rows.
#[derive(Debug)]
pub(crate) struct Grid<const N: usize> {
    columns: [(&'static str, Side); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Grid<N> {
    /// Creates a table without rows.
    pub(crate) const fn new(columns: [(&'static str, Side); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Appends a row. Cells are plain text: colours are not for them, and what others wrote must not end their lines.
    pub(crate) fn push(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| plain_name(&cell)));
    }

    /// Returns the lines of the table, indented by two, without trailing blanks.
    pub(crate) fn render(&self, palette: Palette) -> String {
        let width = |column: usize| {
            let heading = self.columns[column].0.chars().count();
            self.rows.iter().map(|row| row[column].chars().count()).fold(heading, usize::max)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let headings = std::array::from_fn(|column| self.columns[column].0.to_owned());
        let mut text = palette.faint(self.line(&headings, &widths));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&self.line(row, &widths));
            text.push('\n');
        }
        text
    }

    fn line(&self, row: &[String; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for ((cell, (_, side)), width) in row.iter().zip(&self.columns).zip(widths) {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if *side == Side::Right { (gap.as_str(), "") } else { ("", gap.as_str()) };
            line.extend(["  ", before, cell, after]);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_do_not_trail() {
        let mut grid = Grid::new([("N", Side::Right), ("NAME", Side::Left), ("NOTE", Side::Left)]);
        grid.push(["3".into(), "general".into(), String::new()]);
        grid.push(["12".into(), "gpu".into(), "tainted".into()]);
        insta::assert_snapshot!(grid.render(Palette::new(false)), @r"
           N  NAME     NOTE
           3  general
          12  gpu      tainted
        ");
    }

    #[test]
    fn cells_are_plain() {
        let mut grid = Grid::new([("NAME", Side::Left), ("NOTE", Side::Left)]);
        grid.push(["a\u{1b}[2J".into(), "one\ntwo".into()]);
        assert_eq!(grid.render(Palette::new(false)), "  NAME   NOTE\n  a\u{fffd}[2J  one\u{fffd}two\n");
    }
}
