//! Protobuf as far as skill_v1 needs it: a reader that copies nothing and a writer.
//! Take this file as it is.
#![allow(dead_code)] // a skill rarely needs all of it

/// One occurrence of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Number(u64), // int64, uint64, bool
    Double(f64),
    Bytes(&'a [u8]), // a text, bytes or a message
}

impl<'a> Value<'a> {
    /// The bytes, none if it holds something else.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(b) => b,
            _ => &[],
        }
    }

    /// The number, 0 if it holds something else.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(n) => n,
            _ => 0,
        }
    }
}

/// A message, whose fields are visited in the order of their bytes. One that makes
/// no sense ends there.
#[derive(Clone, Copy)]
pub struct Message<'a>(pub &'a [u8]);

impl<'a> Message<'a> {
    /// The last value of a field, if there is one.
    pub fn get(self, number: u32) -> Option<Value<'a>> {
        self.filter(|f| f.number == number).last().map(|f| f.value)
    }

    /// The bytes of a text or bytes, none if it is absent.
    pub fn bytes(self, number: u32) -> &'a [u8] {
        self.get(number).map_or(&[], Value::bytes)
    }

    /// A message, an empty one if it is absent.
    pub fn message(self, number: u32) -> Message<'a> {
        Message(self.bytes(number))
    }

    /// The elements of a list of messages.
    pub fn messages(self, number: u32) -> impl Iterator<Item = Message<'a>> {
        self.filter(move |f| f.number == number).map(|f| Message(f.value.bytes()))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut n = 0;
        for (i, &b) in self.0.iter().take(10).enumerate() {
            n |= u64::from(b & 0x7f) << (7 * i);
            if b < 0x80 {
                self.0 = &self.0[i + 1..];
                return Some(n);
            }
        }
        None
    }

    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        if n > self.0.len() as u64 {
            return None;
        }
        let (taken, rest) = self.0.split_at(n as usize);
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<Field<'a>> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Double(f64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let n = self.varint()?;
                Value::Bytes(self.take(n)?)
            }
            5 => Value::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            _ => return None,
        };
        let number = u32::try_from(tag >> 3).ok().filter(|&n| n > 0)?;
        Some(Field { number, value })
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}

/// A message being written, its fields in ascending order. Values that are proto3's
/// defaults are left out, but for `element`.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn bytes(self, number: u32, b: &[u8]) -> Writer {
        if b.is_empty() {
            return self;
        }
        self.element(number, b)
    }

    pub fn text(self, number: u32, s: &str) -> Writer {
        self.bytes(number, s.as_bytes())
    }

    pub fn number(mut self, number: u32, n: u64) -> Writer {
        if n != 0 {
            self.tag(number, 0);
            self.varint(n);
        }
        self
    }

    pub fn double(mut self, number: u32, d: f64) -> Writer {
        if d.to_bits() != 0 {
            self.tag(number, 1);
            self.0.extend_from_slice(&d.to_le_bytes());
        }
        self
    }

    /// A message or an element of a list, written also when it is empty.
    pub fn element(mut self, number: u32, b: &[u8]) -> Writer {
        self.tag(number, 2);
        self.varint(b.len() as u64);
        self.0.extend_from_slice(b);
        self
    }

    fn tag(&mut self, number: u32, kind: u64) {
        self.varint(u64::from(number) << 3 | kind);
    }

    fn varint(&mut self, mut n: u64) {
        while n > 0x7f {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
}
