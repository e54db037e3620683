//! Generated contents: pseudorandom, from seeds, the same bytes on every machine.

/// The files of one web page: suffix, number, bytes.
const ASSETS: [(&str, usize, usize); 7] = [
    ("css", 3, 48_000),
    ("js", 5, 76_000),
    ("html", 4, 18_000),
    ("svg", 3, 6_000),
    ("json", 1, 28_000),
    ("woff2", 2, 64_000),
    ("webp", 2, 36_000),
];

/// Returns texts that compress to about a quarter, and fonts and pictures that don't compress, each with its name.
pub(crate) fn assets() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (suffix, count, length) in ASSETS {
        for number in 1..=count {
            let seed = (files.len() + 1) as u64;
            let is_text = !matches!(suffix, "woff2" | "webp");
            let content = if is_text { words(seed, length) } else { noise(seed, length) };
            files.push((format!("{suffix}-{number}.{suffix}"), content));
        }
    }
    files
}

/// Returns letters without a short period.
pub(crate) fn letters(length: usize) -> Vec<u8> {
    noise(1, length).into_iter().map(|byte| b'a' + byte % 26).collect()
}

/// Returns words with the frequencies of a text.
fn words(seed: u64, length: usize) -> Vec<u8> {
    let dictionary: Vec<_> = (0..512_u64).map(|word| noise(word + 7, 3 + low_bits(word, 3))).collect();
    let mut text = Vec::with_capacity(length + 16);
    for byte in noise(seed, length).chunks(2) {
        // The square makes the first words of the dictionary frequent.
        let draw = usize::from(byte[0]) * usize::from(byte[0]) / 128;
        text.extend(dictionary[draw % dictionary.len()].iter().map(|byte| b'a' + byte % 26));
        text.push(b' ');
        if text.len() >= length {
            break;
        }
    }
    text.truncate(length);
    text
}

fn low_bits(value: u64, bits: u32) -> usize {
    usize::try_from(value % (1 << bits)).expect("a few bits")
}

/// Returns bytes without a pattern.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56).to_le_bytes()[0]
    };
    (0..length).map(|_| byte()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_have_the_published_number_and_size() {
        let files = assets();
        let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
        assert_eq!((files.len(), bytes / 1000), (20, 842));
    }

    #[test]
    fn texts_repeat_their_words() {
        let text = words(1, 48_000);
        assert_eq!((text.len(), &text), (48_000, &words(1, 48_000)));
        let distinct: std::collections::HashSet<_> = text.split(|byte| *byte == b' ').collect();
        assert!((100..600).contains(&distinct.len()), "{}", distinct.len());
    }
}
