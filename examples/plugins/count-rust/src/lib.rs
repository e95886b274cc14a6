//! A small skill: say how many functions a repository defines.

mod abi;
mod wire;

use wire::{Message, Writer};

const NAME: &str = "count-rust";

fn serve(method: u32, request: &[u8]) -> Result<Vec<u8>, String> {
    let request = Message(request);
    match method {
        abi::DESCRIBE => Ok(describe()),
        abi::BUILD => Ok(build(request)),
        abi::EVALUATE => Ok(evaluate(request)),
        _ => Err(format!("{NAME} has no method {method}")),
    }
}

fn describe() -> Vec<u8> {
    let answer = Writer::default().text(1, NAME).text(2, "0.1.0").number(3, 1);
    answer.text(4, "build").text(4, "evaluate").0
}

fn build(request: Message) -> Vec<u8> {
    let record = request.message(1);
    let id = String::from_utf8_lossy(record.bytes(1));
    let workspace = record.message(7);
    let answer: usize = workspace.messages(2).map(|file| functions(file.bytes(2))).sum();

    let change = Writer::default().text(1, "answer.txt").text(2, &format!("{answer}\n"));
    let task = Writer::default()
        .text(1, &format!("{NAME}/{id}"))
        .text(2, NAME)
        .text(3, &id)
        .text(5, "How many functions do the Python files define?\nWrite the number to answer.txt.")
        .bytes(6, workspace.0)
        .text(7, "answer.txt")
        .text(8, &format!("answer={answer}"))
        .element(9, &Writer::default().element(1, &change.0).0);
    Writer::default().element(1, &task.0).0
}

/// The number of lines that begin with "def ".
fn functions(file: &[u8]) -> usize {
    file.split(|&b| b == b'\n').filter(|line| line.starts_with(b"def ")).count()
}

fn evaluate(request: Message) -> Vec<u8> {
    let hidden = request.message(1).bytes(8);
    let changes: Vec<&[u8]> = request.message(2).messages(1).map(|change| change.bytes(2)).collect();
    abi::log("debug", &format!("changed files: {}", changes.len()));
    if changes.iter().any(|data| [b"answer=", trim(data)].concat() == hidden) {
        return Writer::default().double(1, 1.0).text(3, "the number is right").0;
    }
    Writer::default().text(3, "answer.txt does not give the number of functions").0
}

fn trim(mut b: &[u8]) -> &[u8] {
    let blank = |c: &u8| matches!(c, b'\t'..=b'\r' | b' ');
    while let Some((_, rest)) = b.split_first().filter(|(c, _)| blank(c)) {
        b = rest;
    }
    while let Some((_, rest)) = b.split_last().filter(|(c, _)| blank(c)) {
        b = rest;
    }
    b
}
