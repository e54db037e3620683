//! Converts international host names to the form used in requests: lower case, with `xn--` and Punycode (RFC
//! 3492).
//!
//! This is only needed for messages and the command line, so we do not normalize anything except for letter case (RFC
//! 5891 §4.2.1).

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_N: u32 = 128;

/// Limits the length of a label in a host name (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// Converts a host name to lower case and ASCII and removes a trailing dot.
///
/// Returns `None` if a label is too long.
#[must_use]
pub fn ascii_host(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name).to_lowercase();
    let labels: Option<Vec<String>> = name.split('.').map(ascii_label).collect();
    Some(labels?.join("."))
}

fn ascii_label(label: &str) -> Option<String> {
    if label.is_ascii() {
        return Some(label.to_owned());
    }
    let encoded = format!("xn--{}", encode(label)?);
    (encoded.len() <= LABEL_BYTES_MAX).then_some(encoded)
}

/// Encodes a label (RFC 3492 §6.3). Returns `None` on overflow.
fn encode(label: &str) -> Option<String> {
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).ok()?;
    let total = u32::try_from(label.chars().count()).ok()?;
    if basic > 0 {
        out.push('-');
    }

    let mut n = INITIAL_N;
    let mut delta = 0u32;
    let mut bias = INITIAL_BIAS;
    let mut handled = basic;
    while handled < total {
        let next = label.chars().map(u32::from).filter(|point| *point >= n).min()?;
        delta = delta.checked_add((next - n).checked_mul(handled + 1)?)?;
        n = next;
        for point in label.chars().map(u32::from) {
            if point < n {
                delta = delta.checked_add(1)?;
            }
            if point == n {
                put_number(&mut out, delta, bias);
                bias = adapt(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        n += 1;
    }
    Some(out)
}

/// Writes a generalized variable-length integer.
fn put_number(out: &mut String, mut number: u32, bias: u32) {
    let mut k = BASE;
    loop {
        let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if number < threshold {
            out.push(digit(number));
            return;
        }
        out.push(digit(threshold + (number - threshold) % (BASE - threshold)));
        number = (number - threshold) / (BASE - threshold);
        k += BASE;
    }
}

fn digit(number: u32) -> char {
    char::from_digit(if number < 26 { number + 10 } else { number - 26 }, BASE).unwrap_or('0')
}

/// Adapts the bias (RFC 3492 §6.1).
fn adapt(delta: u32, points: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > (BASE - T_MIN) * T_MAX / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ascii() {
        for (name, ascii) in [
            ("München.de", "xn--mnchen-3ya.de"),
            ("bücher.Example.", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("straße.de", "xn--strae-oqa.de"),
            ("B.EXAMPLE.", "b.example"),
            ("他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"),
        ] {
            assert_eq!(ascii_host(name).as_deref(), Some(ascii), "{name}");
        }
        assert_eq!(ascii_host(&"ü".repeat(100)), None);
    }
}
