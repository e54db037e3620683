//! A photo album with a form to upload photos of any size: `photos [ADDRESS:PORT]`. Photos are kept in a temporary folder.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use cannery::{ContentReader, HandlerError, Multipart, OrStatus, Request, Response, Server};

const FORM: &str = "<!doctype html><title>Photos</title><h1>Photos</h1>
<form method=post enctype=multipart/form-data><input name=photo type=file multiple required><button>Upload</button></form>";

/// A client may send this many bytes.
const UPLOAD_BYTES_MAX: u64 = 1 << 30;

const PHOTO_BYTES_MAX: u64 = 100 << 20;

fn folder() -> PathBuf {
    std::env::temp_dir().join("cannery-photos")
}

/// Lists the photos.
fn album(_: &Request) -> Result<Response, HandlerError> {
    let mut page = FORM.to_owned();
    for number in 1..=fs::read_dir(folder())?.count() {
        page += &format!("<p><img src=/photos/{number} width=300>");
    }
    Ok(Response::html(page))
}

/// Stores photos while they arrive, under names of our own.
fn add(request: &Request, content: ContentReader) -> Result<Response, HandlerError> {
    let mut form = Multipart::new(request, content)?.part_bytes_max(PHOTO_BYTES_MAX);
    while let Some(mut part) = form.next_part()? {
        if part.name() == "photo" {
            let unfinished = tempfile(fs::read_dir(folder())?.count() + 1);
            io::copy(&mut part, &mut File::create(&unfinished)?)?;
            fs::rename(&unfinished, unfinished.with_extension(""))?;
        }
    }
    Ok(Response::redirect(303, "/"))
}

fn tempfile(number: usize) -> PathBuf {
    folder().join(format!("{number}.part"))
}

fn photo(request: &Request) -> Result<Response, HandlerError> {
    // Nothing but a number gets into the path.
    let number: u32 = request.param("number").parse().or_status(404, "There is no such photo.")?;
    let bytes = fs::read(folder().join(number.to_string())).or_status(404, "There is no such photo.")?;
    Ok(Response::bytes("image/jpeg", bytes))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(folder())?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7028".to_owned());
    Server::new()
        .content_bytes_max(UPLOAD_BYTES_MAX)
        .blocking_route("GET /{$}", album)
        .upload_route("POST /{$}", add)
        .blocking_route("GET /photos/{number}", photo)
        .bind(&address)
        .run()?;
    Ok(())
}
