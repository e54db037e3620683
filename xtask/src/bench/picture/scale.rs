//! From figures to places: a scale that begins at zero, or one on which equal ratios are equally far apart.

/// A range of figures with round ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    /// From zero to this.
    Even(f64),
    /// From the first to the second, both above zero.
    Logarithmic(f64, f64),
}

impl Scale {
    /// A scale from zero that holds all of the figures.
    pub(super) fn even(figures: impl Iterator<Item = f64>) -> Scale {
        let most = figures.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let step = round_step(most / 5.0);
        Scale::Even((most / step).ceil() * step)
    }

    /// A scale of ratios that holds all of the figures; those that are not above zero are not looked at.
    pub(super) fn logarithmic(figures: impl Iterator<Item = f64> + Clone) -> Scale {
        let above_zero = figures.filter(|figure| *figure > 0.0);
        let (least, most) = above_zero.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), figure| {
            (least.min(figure), most.max(figure))
        });
        let least = least.min(most);
        let steps: Vec<f64> =
            (-6..9).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power))).collect();
        let below = steps.iter().rev().find(|step| **step <= least).copied().unwrap_or(least);
        let above = steps.iter().find(|step| **step >= most && **step > below).copied().unwrap_or(most);
        Scale::Logarithmic(below, above)
    }

    /// Where a figure lies, from 0 at the low end to 1 at the high end.
    pub(super) fn place(self, figure: f64) -> f64 {
        match self {
            Scale::Even(most) => figure / most,
            Scale::Logarithmic(least, most) => (figure / least).ln() / (most / least).ln(),
        }
    }

    /// Round figures on it, for the grid.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Even(most) => {
                let step = round_step(most / 5.0);
                (0..=20).map(|number| f64::from(number) * step).filter(|tick| *tick <= most * 1.001).collect()
            }
            Scale::Logarithmic(least, most) => {
                let digits: &[f64] = if most / least > 1000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all =
                    (-6..9).flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
                all.filter(|tick| (least * 0.999..=most * 1.001).contains(tick)).collect()
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20, … that is not below.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= step * 0.999);
    digit.unwrap_or(10.0) * power
}

/// A figure in few letters: `5.6`, `120`, `13k`.
pub(super) fn short(figure: f64) -> String {
    match figure {
        1_000_000.0.. => format!("{:.0}M", figure / 1e6),
        10_000.0.. => format!("{:.0}k", figure / 1000.0),
        10.0.. => format!("{figure:.0}"),
        _ if (figure - figure.round()).abs() < 0.001 => format!("{figure:.0}"),
        1.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_scale_begins_at_zero_and_ends_at_a_round_figure() {
        let scale = Scale::even([3.0, 9.3].into_iter());
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert!((scale.place(5.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn on_a_logarithmic_scale_ratios_are_distances() {
        let scale = Scale::logarithmic([1.0, 90.0].into_iter());
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9, "{scale:?}");
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn every_figure_lies_on_its_scale() {
        for figures in [vec![0.3], vec![1.0, 1.0], vec![7.0, 7e5], vec![]] {
            for scale in [Scale::even(figures.iter().copied()), Scale::logarithmic(figures.iter().copied())] {
                assert!(
                    figures.iter().all(|figure| (-1e-9..=1.000_001).contains(&scale.place(*figure))),
                    "{scale:?}"
                );
            }
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.25, 1.5, 5.0, 120.4, 13_200.0, 2e6].map(short),
            ["0.25", "1.5", "5", "120", "13k", "2M"]
        );
    }
}
