//! Records of CSV (RFC 4180) that no spreadsheet takes for formulas.

/// One record, without a line break at its end. A cell is quoted where it must be. A cell that a spreadsheet would
/// evaluate, because it begins with `=`, `+`, `-`, `@`, a tab or a carriage return and is no number, gets a `'` before it.
///
/// ```
/// use spanledger::view::csv::record;
/// assert_eq!(record(&["a, b".into(), "-1.5".into(), "=1+1".into()]), "\"a, b\",-1.5,'=1+1");
/// ```
pub fn record(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    cells.join(",")
}

fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let is_number = text.parse::<f64>().is_ok();
    let text = match is_formula && !is_number {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests;
