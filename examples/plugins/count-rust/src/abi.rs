//! The ABI skill_v1 for a guest in Rust. Take this file as it is, and write
//! `crate::serve`.
#![allow(dead_code)] // a skill rarely needs all of it

use crate::wire::Writer;

/// Methods of a skill.
pub const DESCRIBE: u32 = 1;
pub const BUILD: u32 = 2;
pub const EVALUATE: u32 = 3;
pub const JUDGE: u32 = 4;

/// Methods of the host.
pub const HOST_RUN: u32 = 1;
pub const HOST_MODEL: u32 = 2;
pub const HOST_ASK: u32 = 3;
pub const HOST_LOG: u32 = 4;

#[link(wasm_import_module = "skill_v1")]
extern "C" {
    fn input(to: *mut u8, len: u32);
    fn output(from: *const u8, len: u32);
    fn host_call(method: u32, from: *const u8, len: u32) -> i64;
    fn host_result(to: *mut u8, len: u32);
}

/// Serves one call by `crate::serve`. A panic is told to the host's log and then
/// traps.
#[no_mangle]
pub extern "C" fn skill_v1_call(method: u32, len: u32) -> i32 {
    std::panic::set_hook(Box::new(|p| log("error", &p.to_string())));
    let request = fetch(len, input);
    let (status, answer) = match crate::serve(method, &request) {
        Ok(message) => (0, message),
        Err(text) => (1, text.into_bytes()),
    };
    if !answer.is_empty() {
        // SAFETY: the host copies exactly these bytes before it returns.
        unsafe { output(answer.as_ptr(), answer.len() as u32) }
    }
    status
}

/// Asks the host: the answer's message, or an error's text.
pub fn ask(method: u32, request: &[u8]) -> Result<Vec<u8>, String> {
    // SAFETY: the host copies exactly these bytes before it returns.
    let result = unsafe { host_call(method, request.as_ptr(), request.len() as u32) };
    let reply = fetch(result as u32, host_result);
    if result < 0 {
        return Err(String::from_utf8_lossy(&reply).into_owned());
    }
    Ok(reply)
}

/// Writes a line to the host's log. Capability "log". It never fails.
pub fn log(level: &str, text: &str) {
    let _ = ask(HOST_LOG, &Writer::default().text(1, level).text(2, text).0);
}

/// Has the host write len bytes, which is how many it has.
fn fetch(len: u32, from: unsafe extern "C" fn(*mut u8, u32)) -> Vec<u8> {
    let mut b = vec![0; len as usize];
    if len > 0 {
        // SAFETY: b has room for len bytes, and the host writes no more.
        unsafe { from(b.as_mut_ptr(), len) }
    }
    b
}
