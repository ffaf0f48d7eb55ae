//! Prometheus: scrapes what a test names once a second, evaluates rules as often, and answers questions.
//!
//! ```text
//!   /metrics of controllers ──► Prometheus ──► query: what a dashboard shows
//!   rules ─────────────────────────┘     └───► firing: alerts
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fs_err as fs;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::process::{Program, Running};
use crate::programs;
use crate::wait;
use crate::world::World;

/// Interval of scrapes and of evaluations: the shortest in which a controller writes its metrics anew.
const EVERY: &str = "1s";
/// Longest wait until it answers, on a machine that builds on all cores.
const START: Duration = Duration::from_secs(30);

/// Prometheus at work. It ends with the value.
#[derive(Debug)]
pub struct Prometheus {
    server: Running,
    address: String,
}

/// A series of the answer to a query, with its value now.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels, `__name__` among them if the query keeps it.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// An alert as it was last evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// `inactive`, `pending` or `firing`.
    pub state: String,
    /// `ok`, or why its expression cannot be evaluated.
    pub health: String,
}

impl Prometheus {
    /// Starts it for addresses of loopback, such as `127.0.0.1:8080`, with a file of rules. Their job is `karpenter`, as with
    /// Karpenter's chart.
    ///
    /// # Errors
    /// [`Error::Missing`] when set-up has not run; [`Error::Ended`] when it does not take the rules.
    pub async fn start(world: &World, targets: &[String], rules: &str) -> Result<Self> {
        let folder = world.folder().join("prometheus");
        fs::create_dir_all(&folder)?;
        let (config, rules_file) = (folder.join("config.json"), folder.join("rules.yaml"));
        fs::write(&rules_file, rules)?;
        let jobs = json!([{"job_name": "karpenter", "static_configs": [{"targets": targets}]}]);
        let global = json!({"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY});
        let text = json!({"global": global, "rule_files": [rules_file], "scrape_configs": jobs});
        // JSON is YAML.
        fs::write(&config, text.to_string())?;
        let address = format!("127.0.0.1:{}", world.free_port()?);
        let program = Program::new("prometheus", programs::path("prometheus")?)
            .in_folder(&folder)
            .flag("config.file", &config)
            .flag("storage.tsdb.path", folder.join("data"))
            .flag("web.listen-address", &address);
        let mut started = Self { server: world.spawner().start(&program)?, address };
        let ready = wait::until_some("Prometheus is ready", START, || async {
            Ok(started.ask("/-/ready", &[]).await.is_ok().then_some(()))
        });
        let ready = ready.await;
        started.server.check()?;
        ready?;
        Ok(started)
    }

    /// Returns the value of an expression now, by series.
    ///
    /// # Errors
    /// [`Error::Query`] if it is none, or cannot be evaluated.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let answer = self.ask("/api/v1/query", &[("query", expression)]).await?;
        let refused = || Error::Query {
            query: expression.to_owned(),
            why: answer["error"].as_str().unwrap_or("its answer has no result").to_owned(),
        };
        let data = &answer["data"];
        let sample = |labels: &Value, pair: &Value| {
            let value = pair[1].as_str()?.parse().ok()?;
            let labels = labels.as_object().into_iter().flatten();
            let labels = labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
            Some(Sample { labels: labels.collect(), value })
        };
        let samples = match data["resultType"].as_str() {
            Some("vector") => {
                let all = data["result"].as_array().into_iter().flatten();
                all.map(|one| sample(&one["metric"], &one["value"])).collect()
            }
            Some("scalar") => sample(&Value::Null, &data["result"]).map(|one| vec![one]),
            _ => None,
        };
        samples.ok_or_else(refused)
    }

    /// Returns all alerts of its rules.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn alerts(&self) -> Result<Vec<Alert>> {
        let answer = self.ask("/api/v1/rules", &[("type", "alert")]).await?;
        let groups = answer["data"]["groups"].as_array().into_iter().flatten();
        let rules = groups.filter_map(|group| group["rules"].as_array()).flatten();
        let text = |rule: &Value, field: &str| rule[field].as_str().unwrap_or_default().to_owned();
        Ok(rules
            .map(|rule| {
                let health = match rule["lastError"].as_str() {
                    Some(error) => error.to_owned(),
                    None => text(rule, "health"),
                };
                Alert { name: text(rule, "name"), state: text(rule, "state"), health }
            })
            .collect())
    }

    /// Returns the names of the alerts that fire.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn firing(&self) -> Result<BTreeSet<String>> {
        let all = self.alerts().await?.into_iter();
        Ok(all.filter(|alert| alert.state == "firing").map(|alert| alert.name).collect())
    }

    /// Waits until an expression has a value, and returns it.
    ///
    /// # Errors
    /// [`Error::Deadline`], or that of [`Self::query`].
    pub async fn until(&self, expression: &str, most: Duration) -> Result<Vec<Sample>> {
        let what = format!("`{expression}` has a value");
        let asked = wait::until_some(&what, most, || async {
            let samples = self.query(expression).await?;
            Ok(Some(samples).filter(|samples| !samples.is_empty()))
        });
        asked.await
    }

    /// Asks a path with these parameters.
    async fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let url = format!("http://{}{path}", self.address);
        let parameters: Vec<(String, String)> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let asked = tokio::task::spawn_blocking(move || {
            // Its refusals have a body that says why.
            let request = ureq::get(&url).config().http_status_as_error(false).build();
            let request = parameters.into_iter().fold(request, |request, (name, value)| request.query(name, value));
            let mut answer = request.call()?;
            let is_refused = answer.status().is_server_error();
            let text = answer.body_mut().read_to_string()?;
            Ok::<_, ureq::Error>((is_refused, text))
        });
        let silent = |error: &dyn std::fmt::Display| std::io::Error::other(format!("Prometheus: {error}"));
        let (is_refused, text) = asked.await.map_err(|error| silent(&error))?.map_err(|error| silent(&error))?;
        if is_refused {
            return Err(silent(&text).into());
        }
        // Only the question of whether it is ready is answered with words.
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}
