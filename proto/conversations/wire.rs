//! Conversations as files, and messages as bytes, so that unknown fields are kept.
//!
//! A file has one line per message: the RPC and the bytes in hexadecimal. Comment lines before them describe the
//! conversation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_proto::CONTROLLER_DESCRIPTORS;
use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// Path of the RPC, such as `/muster.v1.Enrolment/Enrol`.
    pub(crate) rpc: String,
    /// Encoded message.
    pub(crate) bytes: Vec<u8>,
}

/// Codec that leaves messages as bytes, for RPCs whose message types the test does not know.
#[derive(Default)]
pub(crate) struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        use prost::bytes::BufMut;
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        use prost::bytes::Buf;
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// A field of a message: its number, its encoding, and its value if that is a string, bytes or a message.
#[derive(Debug)]
struct Field<'m> {
    number: u64,
    whole: &'m [u8],
    value: Option<&'m [u8]>,
}

/// Releases with recorded conversations: version and folder of each.
pub(crate) fn releases() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(|above| {
        let folder = above.join("proto/conversations");
        folder.is_dir().then_some(folder)
    });
    let entries = std::fs::read_dir(folder.unwrap()).unwrap().map(|entry| entry.unwrap());
    let versions = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut all: Vec<_> = versions.map(|it| (it.file_name().into_string().unwrap(), it.path())).collect();
    all.sort();
    assert!(!all.is_empty(), "there is no conversation");
    all
}

/// Reads a conversation.
pub(crate) fn read(file: &Path) -> Vec<Said> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let said = lines.map(|line| {
        let (rpc, bytes) = line.split_once(' ').unwrap_or((line, ""));
        Said { rpc: rpc.to_owned(), bytes: bytes.as_bytes().chunks(2).map(byte).collect() }
    });
    said.collect()
}

/// Writes a conversation.
pub(crate) fn write(file: &Path, about: &str, all: &[Said]) {
    let mut text: String = about.lines().map(|line| format!("# {line}\n")).collect();
    for Said { rpc, bytes } in all {
        text.push('\n');
        text += rpc;
        text.push(if bytes.is_empty() { '\n' } else { ' ' });
        bytes.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    }
    text.push('\n');
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text.replace("\n\n/", "\n/").replacen("\n/", "\n\n/", 1)).unwrap();
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return value;
        }
    }
    panic!("a number without an end");
}

fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put(number: u64, value: &[u8], bytes: &mut Vec<u8>) {
    put_varint(number << 3 | 2, bytes);
    put_varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value);
}

fn fields(mut rest: &[u8]) -> Vec<Field<'_>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let start = rest;
        let tag = varint(&mut rest);
        let mut value = None;
        match tag & 7 {
            0 => drop(varint(&mut rest)),
            1 => rest = &rest[8..],
            2 => {
                let length = usize::try_from(varint(&mut rest)).unwrap();
                value = Some(&rest[..length]);
                rest = &rest[length..];
            }
            5 => rest = &rest[4..],
            other => panic!("wire type {other}"),
        }
        all.push(Field { number: tag >> 3, whole: &start[..start.len() - rest.len()], value });
    }
    all
}

/// Returns the message with another value in the field at `path`. All other fields stay, known or unknown.
pub(crate) fn with(message: &[u8], path: &[u64], value: &[u8]) -> Vec<u8> {
    let (number, inner) = path.split_first().unwrap();
    let mut bytes = Vec::new();
    let mut was_there = false;
    for field in fields(message) {
        if field.number != *number {
            bytes.extend_from_slice(field.whole);
            continue;
        }
        was_there = true;
        match inner {
            [] => put(*number, value, &mut bytes),
            inner => put(*number, &with(field.value.unwrap(), inner, value), &mut bytes),
        }
    }
    assert!(was_there, "the message has no field {path:?}");
    bytes
}

/// Returns the message as a newer release would send it: the message and every message in it get unknown fields of
/// every wire type.
pub(crate) fn newer(name: &str, message: &[u8]) -> Vec<u8> {
    let files = FileDescriptorSet::decode(CONTROLLER_DESCRIPTORS).unwrap().file;
    let all: Vec<(String, DescriptorProto)> = files
        .into_iter()
        .flat_map(|file| {
            let package = file.package().to_owned();
            file.message_type.into_iter().map(move |it| (format!(".{package}.{}", it.name()), it))
        })
        .collect();
    add_unknown(&all, &format!(".{name}"), message)
}

fn add_unknown(all: &[(String, DescriptorProto)], name: &str, message: &[u8]) -> Vec<u8> {
    let (_, descriptor) = all.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("no message {name}"));
    let mut bytes = Vec::new();
    for field in fields(message) {
        let known = descriptor.field.iter().find(|it| it.number().unsigned_abs() as u64 == field.number);
        match known.filter(|it| it.r#type() == Type::Message).zip(field.value) {
            Some((known, value)) => put(field.number, &add_unknown(all, known.type_name(), value), &mut bytes),
            None => bytes.extend_from_slice(field.whole),
        }
    }
    // A varint, eight bytes, a string, and four bytes.
    put_varint(1000 << 3, &mut bytes);
    put_varint(u64::MAX, &mut bytes);
    put_varint(1001 << 3 | 1, &mut bytes);
    bytes.extend_from_slice(&[7; 8]);
    put(1002, "what nobody knows here".as_bytes(), &mut bytes);
    put_varint(1003 << 3 | 5, &mut bytes);
    bytes.extend_from_slice(&[7; 4]);
    bytes
}

/// An unknown member of a `oneof`.
pub(crate) fn unknown_member() -> Vec<u8> {
    let mut bytes = Vec::new();
    put(99, b"what nobody knows here", &mut bytes);
    bytes
}
