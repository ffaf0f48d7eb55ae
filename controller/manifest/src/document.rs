//! Parsing of texts into objects: documents of YAML and JSON, with lists flattened and one object in memory at a time.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{InputError, Place, SHOWN};
use super::locate;
use super::reader::WARNINGS;
use super::source::Source;
use super::tree::{DUPLICATE_KEY, Key, Tree, shorten};

/// Maximum nesting of lists, above any sensible use.
const DEEPEST_LIST: usize = 8;

/// Position of an object, and its text for finding lines.
pub(crate) struct Origin<'s> {
    pub(crate) file: &'s str,
    pub(crate) document: usize,
    pub(crate) item: Option<usize>,
    text: Text<'s>,
    /// Number of lines of the file that may still be looked for.
    lines: &'s Cell<usize>,
}

/// Maximum number of lines of a file that are looked for, as each reads the file up to there: those that are shown.
const MOST_LINES: usize = SHOWN + WARNINGS;

enum Text<'s> {
    Json { whole: &'s str, object: &'s str },
    Yaml { document: &'s str, first_line: usize },
}

impl Origin<'_> {
    /// Returns the position of the field at `path` in the object, with its line unless many have been asked for.
    pub(crate) fn place(&self, path: &str) -> Box<Place> {
        let Some(left) = self.lines.get().checked_sub(1) else { return self.place_at(None) };
        self.lines.set(left);
        let line = match &self.text {
            Text::Json { whole, object } => {
                let at = locate::offset_in(whole, object).saturating_add(locate::in_json(object, path));
                Some(locate::line_of(whole, at))
            }
            Text::Yaml { document, first_line } => {
                locate::in_yaml(document, yaml_options(document.len()), self.item, path)
                    .map(|line| first_line + line - 1)
            }
        };
        self.place_at(line)
    }

    fn place_at(&self, line: Option<usize>) -> Box<Place> {
        Box::new(Place { file: self.file.to_owned(), document: self.document, item: self.item, line })
    }
}

/// Maximum nesting: above any manifest (a CRD's schema has about 40) and within the parser's stack.
const DEEPEST_YAML: usize = 64;

/// Callback for each object.
pub(crate) type UseObject<'u> = dyn FnMut(&Tree<'_>, &Origin<'_>) -> Result<(), InputError> + 'u;

/// Passes each object in `source` to `use_object`.
pub(crate) fn each_object(source: &Source, use_object: &mut UseObject<'_>) -> Result<(), InputError> {
    let text = source.text.trim_start();
    if source.only_json {
        return json_stream(source).and_then(|documents| each_json(source, &documents, use_object));
    }
    if !text.starts_with(['{', '[']) {
        return each_yaml(source, use_object);
    }
    match json_stream(source) {
        Ok(documents) => each_json(source, &documents, use_object),
        // A quote after the brace is typical of JSON, and its parser has the better error message.
        Err(error) if text[1..].trim_start().starts_with('"') && !text.contains("\n---") => Err(error),
        Err(_) => each_yaml(source, use_object),
    }
}

// === JSON ===

/// Splits a stream of JSON into its documents, as slices of the source.
fn json_stream(source: &Source) -> Result<Vec<&str>, InputError> {
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_str(&source.text).into_iter::<&RawValue>() {
        match document {
            Ok(document) => documents.push(document.get()),
            Err(error) => {
                let line = Some(error.line()).filter(|line| *line > 0);
                let place = Place { file: source.name.clone(), document: documents.len() + 1, item: None, line };
                return Err(json_error(Box::new(place), &error));
            }
        }
    }
    Ok(documents)
}

fn each_json(source: &Source, documents: &[&str], use_object: &mut UseObject<'_>) -> Result<(), InputError> {
    let lines = Cell::new(MOST_LINES);
    for (index, document) in documents.iter().enumerate() {
        let origin = Origin {
            file: &source.name,
            document: index + 1,
            item: None,
            text: Text::Json { whole: &source.text, object: document },
            lines: &lines,
        };
        json_object(origin, document, None, DEEPEST_LIST, use_object)?;
    }
    Ok(())
}

/// Passes on an object, or the items of a list; `typed` has the apiVersion and kind that items of a typed list may
/// omit.
fn json_object<'s>(
    origin: Origin<'s>,
    object: &'s str,
    typed: Option<(&str, &str)>,
    deeper: usize,
    use_object: &mut UseObject<'_>,
) -> Result<(), InputError> {
    let Some(list) = json_list(object).filter(|_| deeper > 0) else {
        let mut tree: Tree<'_> = serde_json::from_str(object).map_err(|error| syntax_in(&origin, object, &error))?;
        complete(&mut tree, typed);
        return use_object(&tree, &origin);
    };
    let Entries(entries) = list;
    if let Some(key) = duplicate(&entries) {
        let reason = format!("{DUPLICATE_KEY} `{}`", shorten(key));
        return Err(InputError::DuplicateKey { place: origin.place(""), reason });
    }
    let text_at = |name: &str| {
        let raw = entries.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get());
        raw.and_then(|raw| serde_json::from_str::<Cow<'_, str>>(raw).ok()).unwrap_or_default()
    };
    let (version, kind) = (text_at("apiVersion"), text_at("kind"));
    let typed = kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(|kind| (&*version, kind));
    let items = entries.iter().find(|(key, _)| key == "items").map_or("null", |(_, raw)| raw.get());
    let items = serde_json::from_str::<Option<Vec<&RawValue>>>(items).unwrap_or_default().unwrap_or_default();
    let Text::Json { whole, .. } = origin.text else { return Ok(()) };
    for (index, item) in items.iter().enumerate() {
        let item = item.get();
        let origin = Origin {
            file: origin.file,
            document: origin.document,
            item: origin.item.or(Some(index + 1)),
            text: Text::Json { whole, object: item },
            lines: origin.lines,
        };
        json_object(origin, item, typed, deeper - 1, use_object)?;
    }
    Ok(())
}

/// Returns the entries of a JSON map that is a list of objects.
fn json_list(object: &str) -> Option<Entries<'_>> {
    // A cheap check that saves every pod a second scan.
    let kind_is_list = |raw: &str| serde_json::from_str::<Cow<'_, str>>(raw).is_ok_and(|kind| kind.ends_with("List"));
    if !object.contains("List\"") {
        return None;
    }
    let Entries(entries) = serde_json::from_str(object).ok()?;
    let at = |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get());
    let is_list = at("kind").is_some_and(kind_is_list)
        && at("items").is_some_and(|items| items.starts_with('[') || items == "null");
    is_list.then_some(Entries(entries))
}

/// Adds the apiVersion and kind that the API server omits from the items of a typed list.
fn complete(tree: &mut Tree<'_>, typed: Option<(&str, &str)>) {
    let (Tree::Map(entries), Some((version, kind))) = (tree, typed) else { return };
    for (key, value) in [("apiVersion", version), ("kind", kind)] {
        if !entries.iter().any(|(other, _)| other == key) {
            entries.push((Cow::Borrowed(key), Tree::Text(Cow::Owned(value.to_owned()))));
        }
    }
}

fn duplicate<'e>(entries: &'e [(Cow<'_, str>, &RawValue)]) -> Option<&'e str> {
    let twice = |index: &usize| entries[..*index].iter().any(|(key, _)| *key == entries[*index].0);
    // Lists have four keys; a map with many more is not a list.
    (1..entries.len().min(64)).find(twice).map(|index| &*entries[index].0)
}

fn syntax_in(origin: &Origin<'_>, object: &str, error: &serde_json::Error) -> InputError {
    let first = match origin.text {
        Text::Json { whole, .. } => locate::line_of(whole, locate::offset_in(whole, object)),
        Text::Yaml { first_line, .. } => first_line,
    };
    json_error(origin.place_at(Some(first + error.line().saturating_sub(1))), error)
}

fn json_error(place: Box<Place>, error: &serde_json::Error) -> InputError {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    if reason.starts_with(DUPLICATE_KEY) {
        return InputError::DuplicateKey { place, reason: reason.to_owned() };
    }
    let hint = match reason {
        // To the parser, a comma before a brace looks like the start of a key.
        "trailing comma" | "key must be a string" => "leave out the comma before `}` or `]`, and quote all keys",
        reason if reason.starts_with("EOF") => {
            "the text ends too early: check that the command that wrote it succeeded"
        }
        _ => "correct the text there, or write the file as YAML",
    };
    InputError::Syntax { place, reason: format!("not valid JSON: {reason}"), hint: hint.to_owned() }
}

/// Entries of a JSON map, with their values unparsed.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Entries(entries))
    }
}

// === YAML ===

/// Limits that suffice for any text of this length: only repeated aliases exceed them.
fn yaml_options(bytes: usize) -> serde_saphyr::Options {
    const ROOM: usize = 1_000_000;
    let most = bytes.saturating_add(ROOM);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: most,
            max_nodes: most,
            max_total_scalar_bytes: most.saturating_mul(2),
            max_depth: DEEPEST_YAML,
            flow_nesting_limit: DEEPEST_YAML,
        },
        strict_booleans: true,
    }
}

fn each_yaml(source: &Source, use_object: &mut UseObject<'_>) -> Result<(), InputError> {
    let lines = Cell::new(MOST_LINES);
    for (index, (document, first_line)) in yaml_documents(&source.text).into_iter().enumerate() {
        let origin = Origin {
            file: &source.name,
            document: index + 1,
            item: None,
            text: Text::Yaml { document, first_line },
            lines: &lines,
        };
        let tree: Tree<'_> = serde_saphyr::from_str_with_options(document, yaml_options(document.len()))
            .map_err(|error| yaml_error(&origin, first_line, &error))?;
        yaml_object(&origin, &tree, DEEPEST_LIST, use_object)?;
    }
    Ok(())
}

/// Splits a text into documents with their first lines. In YAML, a line that begins with three dashes or dots is always
/// a separator.
fn yaml_documents(text: &str) -> Vec<(&str, usize)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut content) = (0, 1, false);
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let marks = |mark: &str| {
            line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        };
        let (opens, closes) = (marks("---"), marks("..."));
        if opens.is_some() || closes.is_some() {
            if content {
                documents.push((&text[start..at], start_line));
            }
            (start, start_line, content) = (at, index + 1, false);
        }
        if closes.is_some() {
            (start, start_line) = (at + line.len(), index + 2);
        } else {
            let rest = opens.unwrap_or(line).trim();
            content |= !rest.is_empty() && !rest.starts_with('#') && (opens.is_some() || !line.starts_with('%'));
        }
        at += line.len();
    }
    if content {
        documents.push((&text[start..], start_line));
    }
    documents
}

fn yaml_object(
    origin: &Origin<'_>,
    tree: &Tree<'_>,
    deeper: usize,
    use_object: &mut UseObject<'_>,
) -> Result<(), InputError> {
    if *tree == Tree::Null {
        return Ok(());
    }
    let kind = tree.get("kind").and_then(Tree::text).unwrap_or_default();
    let (Some(of), Some(Tree::List(items)), true) = (kind.strip_suffix("List"), tree.get("items"), deeper > 0) else {
        return use_object(tree, origin);
    };
    let version = tree.get("apiVersion").and_then(Tree::text).unwrap_or_default();
    let typed = (!of.is_empty()).then_some((version, of));
    for (index, item) in items.iter().enumerate() {
        let Text::Yaml { document, first_line } = origin.text else { return Ok(()) };
        let origin = Origin {
            file: origin.file,
            document: origin.document,
            item: origin.item.or(Some(index + 1)),
            text: Text::Yaml { document, first_line },
            lines: origin.lines,
        };
        if typed.is_some() {
            let mut item = item.clone();
            complete(&mut item, typed);
            yaml_object(&origin, &item, deeper - 1, use_object)?;
        } else {
            yaml_object(&origin, item, deeper - 1, use_object)?;
        }
    }
    Ok(())
}

fn yaml_error(origin: &Origin<'_>, first_line: usize, error: &serde_saphyr::Error) -> InputError {
    let line = error.location().and_then(|location| usize::try_from(location.line()).ok()).filter(|line| *line > 0);
    let place = origin.place_at(line.map(|line| first_line + line - 1));
    let error = error.without_snippet();
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let name = key.as_deref().map_or_else(String::new, |key| format!(" `{}`", shorten(key)));
        return InputError::DuplicateKey { place, reason: format!("{DUPLICATE_KEY}{name}") };
    }
    let text = error.to_string();
    let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown cause").trim();
    let reason = reason.split(" at line ").next().unwrap_or(reason);
    if reason.starts_with("budget breached") || matches!(error, serde_saphyr::Error::AliasReplayLimitExceeded { .. }) {
        let reason = "YAML with too much nesting or too many aliases".to_owned();
        let hint = "write out what the aliases stand for, or split the document".to_owned();
        return InputError::Syntax { place, reason, hint };
    }
    let reason = format!("not valid YAML: {}", shorten(reason));
    InputError::Syntax {
        place,
        reason,
        hint: "correct the text there; indent with spaces and quote odd values".to_owned(),
    }
}
