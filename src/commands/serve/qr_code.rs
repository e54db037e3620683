//! QR code of a URL, for the camera of a phone.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

/// Renders the code as lines of text. This returns `None` if the URL is too long for a code.
///
/// Most terminals are dark, so the dark modules should be the background of the text. Cameras are able to
/// read both.
pub(super) fn render(url: &str) -> Option<String> {
    let code = QrCode::new(url).ok()?;
    let text = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_a_square_of_half_blocks() {
        let text = render("http://192.0.2.7:8080/").unwrap();
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        // Version 2 has 25 modules a side, and 4 on each side are quiet.
        assert_eq!((widths.len(), widths[0]), (33_usize.div_ceil(2), 33));
        assert!(widths.iter().all(|width| *width == 33));
        assert!(text.starts_with('█'));
        assert_eq!(render(&"long".repeat(1000)), None);
    }
}
