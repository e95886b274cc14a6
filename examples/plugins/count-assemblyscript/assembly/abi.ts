// The ABI skill_v1 for a guest in AssemblyScript. Take this file as it is, and write
// serve in skill.ts.
import { serve } from "./skill";
import { utf8, Writer } from "./wire";

/** Methods of a skill. */
export const DESCRIBE: u32 = 1;
export const BUILD: u32 = 2;
export const EVALUATE: u32 = 3;
export const JUDGE: u32 = 4;

/** Methods of the host. */
export const HOST_RUN: u32 = 1;
export const HOST_MODEL: u32 = 2;
export const HOST_ASK: u32 = 3;
export const HOST_LOG: u32 = 4;

@external("skill_v1", "input")
declare function input(to: usize, length: u32): void;
@external("skill_v1", "output")
declare function output(from: usize, length: u32): void;
@external("skill_v1", "host_call")
declare function host_call(method: u32, from: usize, length: u32): i64;
@external("skill_v1", "host_result")
declare function host_result(to: usize, length: u32): void;

/** An answer's message, or an error's text. */
export class Answer {
  constructor(
    public bytes: Uint8Array,
    public failed: bool = false,
  ) {}
}

/** Serves one call. */
export function skill_v1_call(method: u32, length: u32): i32 {
  const request = new Uint8Array(i32(length));
  if (length > 0) input(request.dataStart, length);
  const answer = serve(method, request);
  if (answer.bytes.length > 0) output(answer.bytes.dataStart, u32(answer.bytes.length));
  return answer.failed ? 1 : 0;
}

/** Asks the host. */
export function ask(method: u32, request: Uint8Array): Answer {
  const result = host_call(method, request.dataStart, u32(request.length));
  const reply = new Uint8Array(i32(result));
  if (reply.length > 0) host_result(reply.dataStart, u32(reply.length));
  return new Answer(reply, result < 0);
}

/** Writes a line to the host's log. Capability "log". It never fails. */
export function log(level: string, text: string): void {
  ask(HOST_LOG, new Writer().text(1, level).text(2, text).done());
}

/** What a failed assertion or an index out of range comes to: the log hears of it,
 * and the call traps. asconfig.json names it to the compiler. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const what = message === null ? "abort" : message;
  const where = file === null ? "" : file;
  log("error", what + " at " + where + ":" + line.toString() + ":" + column.toString());
  unreachable();
}
