//! A line for each contender across the steps of a scenario, with its name at its end.

use super::scale::{Scale, short};
use super::{Anchor, Drawing, WIDTH, colour};

/// What is drawn.
pub(crate) struct Lines {
    pub(crate) title: String,
    /// What the steps are counted in.
    pub(crate) across: String,
    pub(crate) steps: Vec<String>,
    /// A contender's figure at each step, where it has one.
    pub(crate) series: Vec<(String, Vec<Option<f64>>)>,
    /// Whether equal ratios shall be equally far apart; otherwise it begins at zero.
    pub(crate) logarithmic: bool,
}

const HEIGHT: f64 = 340.0;
const LEFT: f64 = 56.0;
/// Names stand beyond it.
const RIGHT: f64 = WIDTH - 120.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// Names stand at least so far apart.
const NAME_HEIGHT: f64 = 14.0;

impl Lines {
    pub(crate) fn draw(&self) -> String {
        let mut drawing = Drawing::new(HEIGHT, &self.title);
        let all = self.series.iter().flat_map(|(_, figures)| figures.iter().flatten().copied());
        let scale = if self.logarithmic { Scale::logarithmic(all) } else { Scale::even(all) };
        let y = |figure: f64| BOTTOM - scale.place(figure) * (BOTTOM - TOP);

        for tick in scale.ticks() {
            drawing.grid_line((LEFT, y(tick)), (RIGHT, y(tick)));
            drawing.text(LEFT - 6.0, y(tick) + 4.0, Anchor::End, &short(tick));
        }
        for (number, step) in self.steps.iter().enumerate() {
            drawing.text(self.x(number), BOTTOM + 18.0, Anchor::Middle, step);
        }
        drawing.text((LEFT + RIGHT) / 2.0, HEIGHT - 6.0, Anchor::Middle, &self.across);

        let mut ends = Vec::new();
        for (name, figures) in &self.series {
            let places =
                figures.iter().enumerate().filter_map(|(step, figure)| Some((self.x(step), y((*figure)?))));
            let places: Vec<_> = places.collect();
            drawing.path(&places, name);
            for place in &places {
                drawing.dot(*place, 3.0, name);
            }
            ends.extend(places.last().map(|(_, y)| (*y, name.as_str())));
        }
        for (y, name) in apart(ends) {
            drawing.coloured_text((RIGHT + 8.0, y + 4.0), Anchor::Start, colour(name), name);
        }
        drawing.finish()
    }

    /// The steps are evenly spread, whatever they count.
    fn x(&self, step: usize) -> f64 {
        let gaps = self.steps.len().saturating_sub(1).max(1);
        LEFT + 20.0 + (RIGHT - LEFT - 40.0) * step as f64 / gaps as f64
    }
}

/// Moves names that would cover each other down, in the order in which they lie.
fn apart(mut names: Vec<(f64, &str)>) -> Vec<(f64, &str)> {
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = f64::MIN;
    for (y, _) in &mut names {
        *y = y.max(free);
        free = *y + NAME_HEIGHT;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_cover_each_other() {
        let names = apart(vec![(10.0, "b"), (9.0, "a"), (50.0, "d"), (11.0, "c")]);
        assert_eq!(names, [(9.0, "a"), (23.0, "b"), (37.0, "c"), (51.0, "d")]);
    }

    #[test]
    fn a_missing_figure_leaves_a_line_with_fewer_points() {
        let lines = Lines {
            title: "CPU".into(),
            across: "connections".into(),
            steps: vec!["16".into(), "64".into(), "128".into()],
            series: vec![("nginx".into(), vec![Some(1.0), None, Some(2.0)])],
            logarithmic: false,
        };
        let picture = lines.draw();
        assert_eq!(picture.matches("<circle").count(), 2);
        assert_eq!(picture.matches("<polyline").count(), 1);
    }
}
