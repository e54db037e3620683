//! Pictures of figures, as SVG: lines across steps, and dots across scenarios.
//!
//! They are read on light and on dark pages: the background is the page's, words and grid take the colour that the
//! reader prefers, and the colours of the contenders are of middle brightness. They run no script.

mod dots;
mod lines;
mod scale;

use std::fmt::Write;

pub(crate) use dots::Dots;
pub(crate) use lines::Lines;

/// Width of every picture, in its own units.
const WIDTH: f64 = 860.0;

/// Colours by contender; the floor and whoever is not named here take the colour of words.
const COLOURS: [(&str, &str); 9] = [
    ("cannery", "#e4572e"),
    ("cannery-ring", "#c2185b"),
    ("cannery-deferred", "#8d6e63"),
    ("dummy", "#e79a7f"),
    ("nginx", "#2e9e5b"),
    ("lighttpd", "#3b82c4"),
    ("h2o", "#9a6dd7"),
    ("apache2", "#b98a00"),
    ("caddy", "#18a5a5"),
];

fn colour(contender: &str) -> &'static str {
    let known = COLOURS.iter().find(|(name, _)| *name == contender);
    known.map_or("var(--words)", |(_, colour)| colour)
}

const STYLE: &str = "\
svg { --words: #24292f; --grid: #d0d7de; font: 12px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { svg { --words: #c9d1d9; --grid: #3d444d } }
text { fill: var(--words) }
.title { font-weight: 600; font-size: 14px }
.grid { stroke: var(--grid); stroke-width: 1 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
";

/// A picture that is being drawn.
struct Drawing {
    height: f64,
    elements: String,
}

/// Where a text stands beside its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    fn new(height: f64, title: &str) -> Drawing {
        let mut drawing = Drawing { height, elements: String::new() };
        drawing.element(&format!("<title>{}</title>", escaped(title)));
        drawing.element(&format!("<text class=\"title\" x=\"8\" y=\"18\">{}</text>", escaped(title)));
        drawing
    }

    fn element(&mut self, element: &str) {
        self.elements.push_str(element);
        self.elements.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.coloured_text((x, y), anchor, "var(--words)", text);
    }

    fn coloured_text(&mut self, (x, y): (f64, f64), anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.element(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" style=\"fill: {colour}\">{text}</text>"
        ));
    }

    fn grid_line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element(&format!(
            "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    fn dot(&mut self, (x, y): (f64, f64), radius: f64, contender: &str) {
        let (colour, name) = (colour(contender), escaped(contender));
        self.element(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" style=\"fill: {colour}\"><title>{name}</title></circle>"
        ));
    }

    fn path(&mut self, points: &[(f64, f64)], contender: &str) {
        let mut list = String::new();
        for (x, y) in points {
            // Writing to a string does not fail.
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        let colour = colour(contender);
        self.element(&format!(
            "<polyline class=\"line\" style=\"stroke: {colour}\" points=\"{}\"/>",
            list.trim_end()
        ));
    }

    fn finish(self) -> String {
        let Drawing { height, elements } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
             <style>\n{STYLE}</style>\n{elements}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_whole_and_its_words_are_escaped() {
        let mut drawing = Drawing::new(100.0, "a < b");
        drawing.text(1.0, 2.0, Anchor::End, "c & d");
        let text = drawing.finish();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("a &lt; b") && text.contains("c &amp; d"));
    }

    #[test]
    fn every_contender_of_the_scenarios_has_a_colour_but_the_floor() {
        let everybody = super::super::scenarios::ALL.iter().flat_map(|scenario| scenario.contenders);
        let plain: Vec<_> =
            everybody.filter(|contender| colour(contender.name()).starts_with("var")).collect();
        assert!(plain.iter().all(|contender| contender.name() == "floor"), "{plain:?}");
    }
}
