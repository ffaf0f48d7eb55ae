//! Text exposition format of Prometheus.

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

/// Returns all metrics in the classic format, which every scraper and library can parse. It declares a counter under
/// the name of its sample, `…_total`, and has no end marker.
pub(super) fn text(registry: &Registry) -> String {
    let mut modern = String::new();
    // Writing to a string does not fail.
    let _ = encode_registry(&mut modern, registry);
    let mut text = String::with_capacity(modern.len());
    let mut help = None;
    for line in modern.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let declared = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '));
        if let Some((name, kind)) = declared {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            if let Some(words) = help.take().and_then(|help| help.splitn(4, ' ').nth(3)) {
                text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            continue;
        }
        if !line.starts_with("# UNIT ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::info::Info;

    use super::*;

    #[test]
    fn counters_are_declared_as_they_are_sampled() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        counter.inc();
        registry.register("a", "How often", counter);
        registry.register("b", "How much", Gauge::<i64>::default());
        registry.register("c", "Which", Info::new([("version", "1")]));
        insta::assert_snapshot!(text(&registry), @r#"
        # HELP a_total How often.
        # TYPE a_total counter
        a_total 1
        # HELP b How much.
        # TYPE b gauge
        b 0
        # HELP c_info Which.
        # TYPE c_info gauge
        c_info{version="1"} 1
        "#);
    }
}
