//! The few things done to XML: read an answer of moto, look something up, change it, write it again.

use xmltree::{Element, XMLNode};

/// The namespace of EC2's answers.
pub(super) const EC2_NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// `<name>text</name>`.
pub(super) fn leaf(name: &str, text: impl Into<String>) -> Element {
    let mut element = Element::new(name);
    let text = text.into();
    if !text.is_empty() {
        element.children.push(XMLNode::Text(text));
    }
    element
}

/// `<name>…children…</name>`.
pub(super) fn branch(name: &str, children: impl IntoIterator<Item = Element>) -> Element {
    let mut element = Element::new(name);
    element.children.extend(children.into_iter().map(XMLNode::Element));
    element
}

/// EC2's form of a list: `<name><item>…</item><item>…</item></name>`.
pub(super) fn list(name: &str, items: impl IntoIterator<Item = Vec<Element>>) -> Element {
    branch(name, items.into_iter().map(|item| branch("item", item)))
}

/// EC2's form of tags.
pub(super) fn tag_set<'a>(tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> Element {
    list("tagSet", tags.into_iter().map(|(key, value)| vec![leaf("key", key), leaf("value", value)]))
}

/// The document, or `None` if it is not XML.
pub(super) fn read(bytes: &[u8]) -> Option<Element> {
    Element::parse(bytes).ok()
}

/// The document as bytes.
pub(super) fn write(root: &Element) -> Vec<u8> {
    let mut bytes = Vec::new();
    match root.write(&mut bytes) {
        Ok(()) => bytes,
        // A vector takes every write; only a name that is no XML name gets here.
        Err(error) => format!("<Error>{error}</Error>").into_bytes(),
    }
}

/// The descendant at `path` (`a/b/c`).
pub(super) fn at<'a>(element: &'a Element, path: &str) -> Option<&'a Element> {
    path.split('/').try_fold(element, |element, name| element.get_child(name))
}

/// The text of the descendant at `path`; `None` if it is absent or empty.
pub(super) fn text(element: &Element, path: &str) -> Option<String> {
    at(element, path)?.get_text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Writes the text of the direct child `name`, which is made if it is absent.
pub(super) fn set(element: &mut Element, name: &str, text: impl Into<String>) {
    put(element, leaf(name, text));
}

/// Puts `child` in the place of the child of the same name, or at the end.
pub(super) fn put(element: &mut Element, child: Element) {
    match element.get_mut_child(child.name.as_str()) {
        Some(old) => *old = child,
        None => element.children.push(XMLNode::Element(child)),
    }
}

/// The `item` children of the list at `path`.
pub(super) fn items<'a>(element: &'a Element, path: &str) -> impl Iterator<Item = &'a Element> {
    at(element, path).into_iter().flat_map(|list| &list.children).filter_map(XMLNode::as_element)
}

/// The `item` children of the list `name`, to change.
pub(super) fn items_mut<'a>(element: &'a mut Element, name: &str) -> impl Iterator<Item = &'a mut Element> {
    element
        .get_mut_child(name)
        .into_iter()
        .flat_map(|list| list.children.iter_mut())
        .filter_map(XMLNode::as_mut_element)
}

/// Drops the items of the list `name` for which `keep` says no.
pub(super) fn retain(element: &mut Element, name: &str, mut keep: impl FnMut(&Element) -> bool) {
    if let Some(list) = element.get_mut_child(name) {
        list.children.retain(|node| node.as_element().is_none_or(&mut keep));
    }
}

/// The tags of an element with a `tagSet`.
pub(super) fn tags(element: &Element) -> std::collections::BTreeMap<String, String> {
    items(element, "tagSet")
        .filter_map(|tag| Some((text(tag, "key")?, text(tag, "value").unwrap_or_default())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_written_and_the_rest_is_kept() {
        let mut root = read(br#"<R xmlns="urn:x"><s><item><a>1</a></item><item><a>2</a></item></s></R>"#).unwrap();
        retain(&mut root, "s", |item| text(item, "a").as_deref() != Some("1"));
        for item in items_mut(&mut root, "s") {
            set(item, "a", "3 < 4");
            set(item, "b", "");
        }
        let again = read(&write(&root)).unwrap();
        assert_eq!(items(&again, "s").count(), 1);
        assert_eq!(text(&again, "s/item/a").as_deref(), Some("3 < 4"));
        assert_eq!(text(&again, "s/item/b"), None);
        assert_eq!(again.namespace.as_deref(), Some("urn:x"));
    }
}
