//! How far two sequences of tool calls are apart.

use std::collections::HashMap;

/// How far two sequences of tools are apart, from 0 for equal to 1 for nothing in common: the least number of calls to
/// insert, remove or replace to make one of the other (the Levenshtein distance), by the length of the longer one.
/// Arguments and results are not compared.
///
/// ```
/// use spanledger::inspect::baseline::divergence;
/// let tools = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
/// assert_eq!(divergence(&tools("read edit test"), &tools("read edit test")), 0.0);
/// assert_eq!(divergence(&tools("read edit test"), &tools("read edit edit test")), 0.25);
/// assert_eq!(divergence(&tools("read"), &tools("bash")), 1.0);
/// ```
pub fn divergence(a: &[String], b: &[String]) -> f64 {
    let longer = a.len().max(b.len());
    if longer == 0 {
        return 0.0;
    }
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut number = |tool| {
        let next = numbers.len() as u32;
        *numbers.entry(tool).or_insert(next)
    };
    let a: Vec<u32> = a.iter().map(|tool| number(tool.as_str())).collect();
    let b: Vec<u32> = b.iter().map(|tool| number(tool.as_str())).collect();
    // One row of the table at a time.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()] as f64 / longer as f64
}
