//! Names of many planned nodes in a few characters.

/// Maximum number of ranges of numbers that are written out.
const RANGES: usize = 3;

/// Formats names of nodes of `pool`, such as `general-4`: the numbers of several are joined to ranges
/// (`general-0..3,7`). `muster explain node` takes each name.
pub(super) fn brief<'n>(pool: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let number = |name: &str| name.strip_prefix(pool)?.strip_prefix('-')?.parse::<usize>().ok();
    let numbers: Option<Vec<usize>> = names.clone().map(number).collect();
    let Some(mut numbers) = numbers else { return names.collect::<Vec<_>>().join(",") };
    numbers.sort_unstable();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}..{last}"),
    };
    let shown: Vec<String> = ranges.iter().take(RANGES).map(range).collect();
    let more = if ranges.len() > RANGES { ",…" } else { "" };
    format!("{pool}-{}{more}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn consecutive_numbers_are_joined() {
        let of = |numbers: &[usize]| {
            let names: Vec<String> = numbers.iter().map(|number| format!("a-b-{number}")).collect();
            brief("a-b", names.iter().map(String::as_str))
        };
        assert_eq!(of(&[0]), "a-b-0");
        assert_eq!(of(&[1, 0]), "a-b-0,1");
        assert_eq!(of(&[0, 1, 2, 3, 7]), "a-b-0..3,7");
        assert_eq!(of(&[0, 2, 4, 6, 8]), "a-b-0,2,4,…");
    }
}
