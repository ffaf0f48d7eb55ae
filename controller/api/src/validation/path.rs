//! Path of a value in an object.

use std::fmt;

/// A path element.
#[derive(Debug, Clone)]
enum Step {
    Field(String),
    Key(String),
    Index(usize),
}

/// Path from the root of an object to a value, for instance `spec.limits[cpu]`.
#[derive(Debug, Clone, Default)]
pub(super) struct Path(Vec<Step>);

impl Path {
    /// Creates the path of a top-level field.
    pub(super) fn of(field: &str) -> Self {
        Self(vec![Step::Field(field.to_owned())])
    }

    /// Runs `then` with the path of a field.
    pub(super) fn in_field<T>(&mut self, name: &str, then: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Field(name.to_owned()), then)
    }

    /// Runs `then` with the path of a map entry.
    pub(super) fn in_key<T>(&mut self, key: &str, then: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Key(key.to_owned()), then)
    }

    /// Runs `then` with the path of a list entry.
    pub(super) fn in_index<T>(&mut self, index: usize, then: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Index(index), then)
    }

    fn within<T>(&mut self, step: Step, then: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(step);
        let result = then(self);
        self.0.pop();
        result
    }

    /// Returns the name of the last field or key, for messages.
    pub(super) fn last_field(&self) -> &str {
        let field = self.0.iter().rev().find_map(|step| match step {
            Step::Field(name) | Step::Key(name) => Some(name.as_str()),
            Step::Index(_) => None,
        });
        field.unwrap_or("object")
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key}]")?,
                Step::Index(position) => write!(f, "[{position}]")?,
            }
        }
        Ok(())
    }
}
