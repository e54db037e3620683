//! Charts as SVG, drawn by plotters: lines across the steps of a scenario, and ratios across scenarios.
//!
//! The same data gives the same bytes, so we commit the charts.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition};
use plotters::coord::{CoordTranslate, Shift};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoLogRange, LineSeries};
use plotters::style::{BLACK, Color, RGBColor, WHITE};

use crate::metric::precise;

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

/// A chart on a logarithmic axis.
pub(crate) struct Chart {
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The names along the other axis.
    pub(crate) places: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) shape: Shape,
}

/// One value for each place, or `None` where it is missing.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

pub(crate) enum Shape {
    /// A line for each series across the places. The legend is to the right of the last place.
    Lines,
    /// A row for each place with a dot for each series.
    Dots,
}

fn color(name: &str) -> RGBColor {
    COLORS.iter().find(|(other, _)| *other == name).map_or(BLACK, |(_, color)| *color)
}

impl Series {
    /// Returns the values that aren't missing, with the numbers of their places.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.values.iter().enumerate().filter_map(|(place, value)| Some((place as f64, (*value)?)))
    }
}

impl Chart {
    /// Returns the chart as SVG.
    pub(crate) fn draw(&self) -> Result<String> {
        let height = match self.shape {
            Shape::Lines => 340,
            Shape::Dots => 110 + 22 * u32::try_from(self.places.len())?,
        };
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        // Readers with a dark theme need a background.
        let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| match self.shape {
            Shape::Lines => self.draw_lines(&area),
            Shape::Dots => self.draw_dots(&area),
        });
        drawn
            .and_then(|()| Ok(area.present()?))
            .map_err(|error| anyhow!("cannot draw {}: {error}", self.name))?;
        drop(area);
        Ok(svg)
    }

    fn draw_lines(&self, area: &Area<'_>) -> Drawn {
        let last = self.places.len().saturating_sub(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 16))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(-0.1 * last..last * 1.3, self.bounds().log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(self.places.len() * 2)
            .x_label_formatter(&|place| self.name_at(*place))
            .y_label_formatter(&|value| precise(*value))
            .draw()?;

        for series in &self.series {
            let color = color(&series.name);
            let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color.stroke_width(2));
            let line = LineSeries::new(series.points(), color.stroke_width(2));
            chart.draw_series(line)?.label(&series.name).legend(legend);
            chart.draw_series(series.points().map(|point| Circle::new(point, 3, color.filled())))?;
        }
        draw_legend(&mut chart, SeriesLabelPosition::MiddleRight)
    }

    fn draw_dots(&self, area: &Area<'_>) -> Drawn {
        let rows = self.places.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 16))
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(170)
            .build_cartesian_2d(self.bounds().log_scale(), rows - 0.5..-0.5)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .y_labels(self.places.len() * 2)
            .y_label_formatter(&|place| self.name_at(*place))
            .x_label_formatter(&|value| precise(*value))
            .draw()?;

        for series in &self.series {
            let color = color(&series.name);
            let legend = move |(x, y)| Circle::new((x + 7, y), 4, color.filled());
            let dots = series.points().map(|(row, value)| Circle::new((value, row), 4, color.filled()));
            chart.draw_series(dots)?.label(&series.name).legend(legend);
        }
        draw_legend(&mut chart, SeriesLabelPosition::UpperRight)
    }

    /// Returns the name of a place on the axis, or an empty string between two places.
    fn name_at(&self, place: f64) -> String {
        let named = self.places.iter().enumerate().find(|(number, _)| (*number as f64 - place).abs() < 1e-6);
        named.map_or(String::new(), |(_, name)| name.clone())
    }

    /// Returns a range with all values and some margin.
    fn bounds(&self) -> Range<f64> {
        let values = self.series.iter().flat_map(Series::points).map(|(_, value)| value);
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (value.min(low), value.max(high)));
        if low > high { 1.0..10.0 } else { low * 0.9..high * 1.1 }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw_legend<'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, C>,
    position: SeriesLabelPosition,
) -> Drawn {
    let mut legend = chart.configure_series_labels();
    legend.position(position).background_style(WHITE.mix(0.8));
    Ok(legend.border_style(RGBColor(0xd0, 0xd7, 0xde)).draw()?)
}
