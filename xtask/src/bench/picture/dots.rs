//! A row for each scenario and a dot for each contender, by its ratio to one of them.

use super::scale::{Scale, short};
use super::{Anchor, COLOURS, Drawing, WIDTH, colour};

/// What is drawn.
pub(crate) struct Dots {
    pub(crate) title: String,
    /// A name, and the ratio of each contender.
    pub(crate) rows: Vec<(String, Vec<(String, f64)>)>,
}

/// Whose dots are larger.
const OURS: &str = "cannery";

/// Room for names such as scenarios have.
const LEFT: f64 = 410.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 60.0;
const ROW_HEIGHT: f64 = 24.0;

impl Dots {
    pub(crate) fn draw(&self) -> String {
        let bottom = TOP + ROW_HEIGHT * self.rows.len() as f64;
        let mut drawing = Drawing::new(bottom + 24.0, &self.title);
        let all = self.rows.iter().flat_map(|(_, dots)| dots.iter().map(|(_, ratio)| *ratio));
        let scale = Scale::logarithmic(all);
        let x = |ratio: f64| LEFT + scale.place(ratio) * (RIGHT - LEFT);

        self.draw_names(&mut drawing);
        for tick in scale.ticks() {
            drawing.grid_line((x(tick), TOP - 8.0), (x(tick), bottom));
            drawing.text(x(tick), bottom + 16.0, Anchor::Middle, &short(tick));
        }
        for (number, (name, dots)) in self.rows.iter().enumerate() {
            let y = TOP + ROW_HEIGHT * (number as f64 + 0.5);
            drawing.text(LEFT - 14.0, y + 4.0, Anchor::End, name);
            // Ours comes last, so that nothing hides it.
            for (contender, ratio) in dots.iter().filter(|(name, _)| name != OURS) {
                drawing.dot((x(*ratio), y), 5.0, contender);
            }
            for (contender, ratio) in dots.iter().filter(|(name, _)| name == OURS) {
                drawing.dot((x(*ratio), y), 6.0, contender);
            }
        }
        drawing.finish()
    }

    /// Whose dot has which colour, for those who are there.
    fn draw_names(&self, drawing: &mut Drawing) {
        /// About how wide a letter is, and what stands beside the letters of a name.
        const LETTER: f64 = 7.4;
        const BESIDE: f64 = 26.0;
        let is_there =
            |name: &str| self.rows.iter().any(|(_, dots)| dots.iter().any(|(other, _)| other == name));
        let known = COLOURS.iter().map(|(name, _)| *name);
        let there = ["floor"].into_iter().chain(known).filter(|name| is_there(name));
        let mut x = 14.0;
        for name in there {
            drawing.dot((x, 36.0), 5.0, name);
            drawing.coloured_text((x + 9.0, 40.0), Anchor::Start, colour(name), name);
            x += BESIDE + LETTER * name.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_is_a_dot_and_every_contender_is_named_once() {
        let rows = ["k1", "k2"]
            .map(|name| (name.to_owned(), vec![("cannery".to_owned(), 1.0), ("nginx".to_owned(), 2.0)]));
        let picture = Dots { title: "ratios".into(), rows: rows.into() }.draw();
        assert_eq!(picture.matches("<circle").count(), 4 + 2);
        assert_eq!(picture.matches(">nginx</text>").count(), 1);
    }
}
