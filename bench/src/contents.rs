//! Generated contents: pseudorandom, from seeds, the same bytes on every machine.

/// Returns letters without a short period.
pub(crate) fn letters(length: usize) -> Vec<u8> {
    noise(1, length).into_iter().map(|byte| b'a' + byte % 26).collect()
}

/// Returns words with the frequencies of a text.
pub(crate) fn words(seed: u64, length: usize) -> Vec<u8> {
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
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56).to_le_bytes()[0]
    };
    (0..length).map(|_| byte()).collect()
}
