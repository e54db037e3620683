//! Charts as SVG, drawn by plotters: lines across the steps of a scenario, and ratios across scenarios.
//!
//! The same data gives the same bytes, so we commit the charts.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoLogRange, LineSeries};
use plotters::style::{BLACK, Color, RGBColor, WHITE};

const WIDTH: u32 = 860;
const FONT: &str = "sans-serif";

/// Colors by series.
const COLORS: [(&str, RGBColor); 10] = [
    ("cannery", RGBColor(0xe4, 0x57, 0x2e)),
    ("cannery-ring", RGBColor(0xc2, 0x18, 0x5b)),
    ("cannery-deferred", RGBColor(0x8d, 0x6e, 0x63)),
    ("dummy", RGBColor(0xe7, 0x9a, 0x7f)),
    ("floor", RGBColor(0x60, 0x60, 0x60)),
    ("nginx", RGBColor(0x2e, 0x9e, 0x5b)),
    ("lighttpd", RGBColor(0x3b, 0x82, 0xc4)),
    ("h2o", RGBColor(0x9a, 0x6d, 0xd7)),
    ("apache2", RGBColor(0xb9, 0x8a, 0x00)),
    ("caddy", RGBColor(0x18, 0xa5, 0xa5)),
];

/// One value for each step, or `None` where it is missing.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

fn color(name: &str) -> RGBColor {
    COLORS.iter().find(|(other, _)| *other == name).map_or(BLACK, |(_, color)| *color)
}

/// Draws a line for each series across the steps, on a logarithmic axis. The legend is to the right of the last step.
pub(crate) fn lines(title: &str, steps: &[String], all: &[Series]) -> Result<String> {
    draw(340, |area| {
        let last = steps.len().saturating_sub(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(title, (FONT, 16))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(
                -0.1 * last..last * 1.3,
                bounds(all.iter().flat_map(|series| &series.values)).log_scale(),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(steps.len() * 2)
            .x_label_formatter(&|place| name_at(steps, *place))
            .y_label_formatter(&|value| crate::metric::precise(*value))
            .draw()?;

        for Series { name, values } in all {
            let color = color(name);
            let points = values.iter().enumerate().filter_map(|(step, value)| Some((step as f64, (*value)?)));
            let points: Vec<_> = points.collect();
            let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color.stroke_width(2));
            chart
                .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
                .label(name)
                .legend(legend);
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(0xd0, 0xd7, 0xde))
            .draw()?;
        Ok(())
    })
}

/// Draws a row for each step with a dot for each series, on a logarithmic axis.
pub(crate) fn dots(title: &str, steps: &[String], all: &[Series]) -> Result<String> {
    let rows = u32::try_from(steps.len()).unwrap_or(1);
    draw(110 + rows * 22, |area| {
        let range = bounds(all.iter().flat_map(|series| &series.values));
        let mut chart = ChartBuilder::on(area)
            .caption(title, (FONT, 16))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(130)
            .build_cartesian_2d(range.log_scale(), f64::from(rows) - 0.5..-0.5)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .y_labels(steps.len() * 2)
            .y_label_formatter(&|place| name_at(steps, *place))
            .x_label_formatter(&|value| crate::metric::precise(*value))
            .draw()?;

        for Series { name, values } in all {
            let color = color(name);
            let points = values.iter().enumerate().filter_map(|(row, value)| Some(((*value)?, row as f64)));
            chart
                .draw_series(points.map(|point| Circle::new(point, 4, color.filled())))?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 7, y), 4, color.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(0xd0, 0xd7, 0xde))
            .draw()?;
        Ok(())
    })
}

/// Returns the name of a place on the axis of steps, or an empty string between two steps.
fn name_at(steps: &[String], place: f64) -> String {
    let named = steps.iter().enumerate().find(|(step, _)| (*step as f64 - place).abs() < 1e-6);
    named.map_or(String::new(), |(_, name)| name.clone())
}

/// Returns a range with all values and some margin.
fn bounds<'a>(values: impl Iterator<Item = &'a Option<f64>>) -> Range<f64> {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for value in values.flatten() {
        low = low.min(*value);
        high = high.max(*value);
    }
    if low > high { 1.0..10.0 } else { low * 0.9..high * 1.1 }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw(height: u32, draw_on: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    // Readers with a dark theme need a background.
    let drawn = area
        .fill(&WHITE)
        .map_err(Into::into)
        .and_then(|()| draw_on(&area))
        .and_then(|()| Ok(area.present()?));
    drawn.map_err(|error| anyhow!("cannot draw a chart: {error}"))?;
    drop(area);
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[f64]) -> Series {
        Series { name: name.into(), values: values.iter().copied().map(Some).collect() }
    }

    #[test]
    fn a_chart_names_its_steps_and_series() {
        let steps = ["16", "64", "128"].map(String::from);
        let all = [series("cannery", &[1.0, 2.0, 3.0]), series("nginx", &[2.0, 3.0])];
        for svg in [lines("CPU", &steps, &all).unwrap(), dots("CPU", &steps, &all).unwrap()] {
            assert!(["CPU", "128", "nginx"].iter().all(|name| svg.contains(name)), "{svg}");
        }
        assert_eq!(lines("CPU", &steps, &all).unwrap(), lines("CPU", &steps, &all).unwrap());
    }
}
