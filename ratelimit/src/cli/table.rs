//! Columns for people: text to the left, numbers to the right.

use std::fmt;

/// Rows under a heading.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// Adds a row, of as many columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn is_number(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
        // Prefixes and addresses are none.
        let is_address = |cell: &str| cell.contains(['/', ':']) || cell.matches('.').count() > 1;
        cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()) && !is_address(cell))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                let cell = if self.is_number(column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                };
                line = if column == 0 { cell } else { format!("{line}  {cell}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["RULE", "PASSED"]);
        table.row(["every-source".to_owned(), "7".to_owned()]);
        table.row(["syn".to_owned(), "1234567".to_owned()]);
        assert_eq!(
            table.to_string(),
            "RULE           PASSED\nevery-source        7\nsyn           1234567\n"
        );
    }
}
