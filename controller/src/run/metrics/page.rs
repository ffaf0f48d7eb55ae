//! Writer of the text format of Prometheus.

use std::fmt::Write;

use super::catalogue::Metric;

/// A text being written: the samples of a metric follow its declaration.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Labels of a series in the text format: those whose values are not empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Rendered(String);

impl Page {
    /// Continues a text.
    pub(super) const fn after(text: String) -> Self {
        Self(text)
    }

    pub(super) fn text(self) -> String {
        self.0
    }

    /// Declares a metric.
    pub(super) fn declare(&mut self, metric: &Metric) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(self.0, "# TYPE {} {}", metric.name, metric.kind.name());
    }

    /// Writes a sample of the last metric; `suffix` follows its name.
    pub(super) fn sample(&mut self, metric: &Metric, suffix: &str, labels: &[&Rendered], value: f64) {
        let text = &mut self.0;
        text.push_str(metric.name);
        text.push_str(suffix);
        let mut between = '{';
        for labels in labels.iter().filter(|labels| !labels.0.is_empty()) {
            text.push(between);
            text.push_str(&labels.0);
            between = ',';
        }
        if between == ',' {
            text.push('}');
        }
        text.push(' ');
        number(text, value);
        text.push('\n');
    }

    /// Declares a metric without labels, and writes its sample.
    pub(super) fn single(&mut self, metric: &Metric, value: f64) {
        self.declare(metric);
        self.sample(metric, "", &[], value);
    }
}

impl Rendered {
    pub(super) fn new<'l>(labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> Self {
        let mut text = String::with_capacity(128);
        for (name, value) in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(name);
            text.push_str("=\"");
            escape(&mut text, value);
            text.push('"');
        }
        Self(text)
    }
}

fn escape(text: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        text.push_str(value);
        return;
    }
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// Whole numbers, the most frequent ones, are written as such.
fn number(text: &mut String, value: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let _ = if value.fract() == 0.0 && value.abs() < EXACT {
        write!(text, "{}", value as i64)
    } else if value.is_infinite() {
        write!(text, "{}Inf", if value > 0.0 { '+' } else { '-' })
    } else {
        write!(text, "{value}")
    };
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    #[test]
    fn empty_labels_are_left_out_and_others_are_escaped() {
        let mut page = Page::default();
        let metric = &catalogue::NODES_CREATED;
        page.declare(metric);
        let labels = Rendered::new([("nodepool", "a\"b\\c\nd"), ("zone", "")]);
        page.sample(metric, "", &[&labels], 2.0);
        page.sample(metric, "", &[&Rendered::default(), &labels, &labels], 0.25);
        page.sample(metric, "_x", &[], f64::INFINITY);
        insta::assert_snapshot!(page.text(), @r#"
        # HELP karpenter_nodes_created_total Nodes that have registered
        # TYPE karpenter_nodes_created_total counter
        karpenter_nodes_created_total{nodepool="a\"b\\c\nd"} 2
        karpenter_nodes_created_total{nodepool="a\"b\\c\nd",nodepool="a\"b\\c\nd"} 0.25
        karpenter_nodes_created_total_x +Inf
        "#);
    }
}
