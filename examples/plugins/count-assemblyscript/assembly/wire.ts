// Protobuf as far as skill_v1 needs it: a reader that copies nothing and a writer.
// Take this file as it is.

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

/** The bytes of a text. */
export function utf8(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text));
}

/** The text that bytes hold. */
export function text(bytes: Uint8Array): string {
  return String.UTF8.decodeUnsafe(bytes.dataStart, bytes.byteLength);
}

/** Visits the fields of a message in the order of their bytes. One that makes no sense ends there. */
export class Reader {
  /** Of the field that next found. */
  number: u32 = 0;
  /** Its number, or the bits of a double. */
  value: u64 = 0;
  /** Its text, bytes or message, within the message read. */
  data: Uint8Array = new Uint8Array(0);

  private at: i32 = 0;
  private broken: bool = false;

  constructor(private message: Uint8Array) {}

  /** Finds the next field; false if there is none. */
  next(): bool {
    if (this.at == this.message.length) return false;
    const tag = this.varint();
    this.number = u32(tag >> 3);
    this.value = 0;
    this.data = new Uint8Array(0);
    switch (u32(tag & 7)) {
      case VARINT:
        this.value = this.varint();
        break;
      case FIXED64:
        this.value = this.fixed(8);
        break;
      case FIXED32:
        this.value = this.fixed(4);
        break;
      case LENGTH: {
        const length = this.varint();
        if (!this.has(length)) break;
        this.data = this.message.subarray(this.at, this.at + i32(length));
        this.at += i32(length);
        break;
      }
      default:
        this.broken = true;
    }
    if (this.broken || this.number == 0) {
      this.at = this.message.length;
      return false;
    }
    return true;
  }

  private has(n: u64): bool {
    if (n > u64(this.message.length - this.at)) this.broken = true;
    return !this.broken;
  }

  private varint(): u64 {
    let n: u64 = 0;
    for (let shift: u64 = 0; shift < 70 && this.has(1); shift += 7) {
      const b = this.message[this.at++];
      n |= u64(b & 0x7f) << shift;
      if (b < 0x80) return n;
    }
    this.broken = true;
    return 0;
  }

  private fixed(width: i32): u64 {
    let n: u64 = 0;
    if (!this.has(u64(width))) return 0;
    for (let i = 0; i < width; i++) n |= u64(this.message[this.at++]) << (8 * u64(i));
    return n;
  }
}

/** The data of the last field with this number, empty if there is none. */
export function find(message: Uint8Array, number: u32): Uint8Array {
  let found = new Uint8Array(0);
  for (const fields = new Reader(message); fields.next(); ) {
    if (fields.number == number) found = fields.data;
  }
  return found;
}

/** The data of each field with this number. */
export function findAll(message: Uint8Array, number: u32): Uint8Array[] {
  const found: Uint8Array[] = [];
  for (const fields = new Reader(message); fields.next(); ) {
    if (fields.number == number) found.push(fields.data);
  }
  return found;
}

/** A message being written, its fields in ascending order. Values that are proto3's
 * defaults are left out, but for element. */
export class Writer {
  private buffer: Uint8Array = new Uint8Array(256);
  private length: i32 = 0;

  /** The bytes written so far. */
  done(): Uint8Array {
    return this.buffer.subarray(0, this.length);
  }

  bytes(number: u32, value: Uint8Array): Writer {
    return value.length == 0 ? this : this.element(number, value);
  }

  text(number: u32, value: string): Writer {
    return this.bytes(number, utf8(value));
  }

  number(number: u32, value: u64): Writer {
    if (value == 0) return this;
    this.tag(number, VARINT);
    this.varint(value);
    return this;
  }

  double(number: u32, value: f64): Writer {
    const bits = reinterpret<u64>(value);
    if (bits == 0) return this;
    this.tag(number, FIXED64);
    for (let i: u64 = 0; i < 8; i++) this.byte(u8(bits >> (8 * i)));
    return this;
  }

  /** A message or an element of a list, written also when it is empty. */
  element(number: u32, value: Uint8Array): Writer {
    this.tag(number, LENGTH);
    this.varint(u64(value.length));
    this.room(value.length);
    this.buffer.set(value, this.length);
    this.length += value.length;
    return this;
  }

  private tag(number: u32, type: u32): void {
    this.varint((u64(number) << 3) | u64(type));
  }

  private varint(n: u64): void {
    for (; n > 0x7f; n >>= 7) this.byte(u8(n & 0x7f) | 0x80);
    this.byte(u8(n));
  }

  private byte(b: u8): void {
    this.room(1);
    this.buffer[this.length++] = b;
  }

  private room(n: i32): void {
    if (this.length + n <= this.buffer.length) return;
    const larger = new Uint8Array(2 * this.buffer.length + n);
    larger.set(this.done());
    this.buffer = larger;
  }
}
