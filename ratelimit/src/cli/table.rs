//! Columns for people: text to the left, numbers to the right.

use std::fmt;

/// Rows under a heading.
#[derive(Debug)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// With these headings.
    #[must_use]
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()] }
    }

    /// Adds a row, of as many columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    fn column(&self, column: usize) -> Column {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        // Prefixes and addresses are no numbers.
        let is_address = |cell: &str| cell.contains(['/', ':']) || cell.matches('.').count() > 1;
        let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit()) && !is_address(cell);
        Column {
            width: cells().map(|cell| cell.chars().count()).max().unwrap_or(0),
            is_number: cells().skip(1).all(is_number),
        }
    }
}

/// How the cells of a column are written. Found once, not for each row, of which there may be very many.
struct Column {
    width: usize,
    is_number: bool,
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.rows.first().map_or(0, Vec::len);
        let columns: Vec<Column> = (0..count).map(|column| self.column(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, Column { width, is_number }) in row.iter().zip(&columns) {
                let separator = if line.is_empty() { "" } else { "  " };
                line += separator;
                line += &if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
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
        let mut table = TextTable::new(["RULE", "PASSED"]);
        table.row(["every-source".to_owned(), "7".to_owned()]);
        table.row(["syn".to_owned(), "1234567".to_owned()]);
        assert_eq!(
            table.to_string(),
            "RULE           PASSED\nevery-source        7\nsyn           1234567\n"
        );
    }

    /// As many as there can be bans: if the cost of a row grew with the rows, this would take hours.
    #[test]
    fn a_table_may_be_long() {
        let mut table = TextTable::new(["PREFIX", "LEFT"]);
        for index in 0..131_072_u32 {
            table.row([format!("{}/32", std::net::Ipv4Addr::from(index)), format!("{index}")]);
        }
        let text = table.to_string();
        assert_eq!(text.lines().count(), 131_073);
        assert_eq!(text.lines().last(), Some("0.1.255.255/32  131071"));
        assert_eq!(text.lines().nth(1), Some("0.0.0.0/32           0"));
    }
}
